"""The runner: every run, in parallel, resumable after a kill, honest about failures."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import nbformat
import psutil
import pytest
from conftest import ROOT, TINY, TOKENS

from lib.files import results_dir
from lib.findings.judging import FINDINGS
from lib.panels import PanelError, load_panel
from lib.report import execution as run
from lib.report import jobs
from lib.tables import heads


def command(panel, *arguments):
    return [sys.executable, "-m", "lib.run", "--panel", panel, "--jobs", "2", *arguments]


def outputs(panel_name="tiny"):
    """{relative path: bytes} of all executed notebooks."""
    folder = results_dir(panel_name) / "runs"
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*.ipynb")}


@pytest.fixture
def notebooks(tmp_path, monkeypatch):
    """A copy of F1 and F2 that a test may break."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for finding in ("F1", "F2"):
        shutil.copy(jobs.notebook_of(finding), folder)
    monkeypatch.setattr(jobs, "NOTEBOOKS", folder)
    return folder


def wait_until(true, seconds=300):
    deadline = time.time() + seconds
    while not true():
        assert time.time() < deadline
        time.sleep(0.05)


def break_notebook(folder, source="raise RuntimeError('broken on purpose')"):
    (path,) = folder.glob("F2_*.ipynb")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(3, nbformat.v4.new_code_cell(source))
    nbformat.write(notebook, path)


# Planning -----------------------------------------------------------------------------


def test_the_mini_panel_is_150_runs():
    planned = jobs.plan("mini")
    assert len(planned) == len({job.output for job in planned}) == 150
    assert {job.finding for job in planned} == set(FINDINGS) == {"F1", "F2", "F3", "F4", "F5"}


def test_a_panel_can_be_narrowed(tiny_panel):
    planned = jobs.plan(tiny_panel, ["F2"], ["tiny-olmo"], ["step10"])
    assert [str(job) for job in planned] == ["F2 tiny-olmo step10"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--findings", "F7"], "no finding is called 'F7'. Nearest: F"),
        (["--models", "tiny-omlo"], "no model in panel 'tiny' is called 'tiny-omlo'. Nearest: tiny-olmo"),
        (["--revisions", "step100"], "no revision of tiny-neox, tiny-olmo is called 'step100'. Nearest: step10"),
        (["--panel", "minni"], "no panel 'minni': panels/minni.yml does not exist. Nearest: mini"),
    ],
)
def test_wrong_names_are_answered_before_anything_starts(tiny_panel, capsys, arguments, message):
    assert run.main(["--panel", tiny_panel, *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not results_dir("tiny").exists()


def test_an_unknown_revision_is_refused_by_the_notebook_too(tiny_panel):
    from lib.report.run_page import open_run

    with pytest.raises(PanelError, match="Nearest: step10"):
        open_run(tiny_panel, "tiny-olmo", "step100")


# Executing ----------------------------------------------------------------------------


@pytest.mark.slow
def test_killed_and_run_again_it_ends_with_what_an_undisturbed_run_gives(tiny_panel, tmp_path, monkeypatch):
    some = ("--models", "tiny-olmo", "--findings", "F1", "F2", "F4")
    subprocess.run(command(tiny_panel, *some), cwd=ROOT, check=True, capture_output=True)
    undisturbed = outputs()
    assert len(undisturbed) == 3 * len(TOKENS)

    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "disturbed"))
    process = subprocess.Popen(command(tiny_panel, *some), cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
    deadline = time.time() + 300
    while len(outputs()) < 3 and process.poll() is None and time.time() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = {p: (results_dir("tiny") / "runs" / p).stat().st_mtime_ns for p in outputs()}
    assert 0 < len(before) < len(undisturbed)

    again = subprocess.run(command(tiny_panel, *some), cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert outputs() == undisturbed
    kept = [p for p, t in before.items() if (results_dir("tiny") / "runs" / p).stat().st_mtime_ns == t]
    assert kept == list(before), "finished runs were made again"
    assert not list(results_dir("tiny").rglob("*.tmp"))

    third = subprocess.run(command(tiny_panel, *some), cwd=ROOT, capture_output=True, text=True)
    assert "9 runs, 9 unchanged" in third.stderr


@pytest.mark.slow
def test_a_failing_run_keeps_its_traceback_and_stops_nobody(tiny_panel, notebooks, capsys):
    break_notebook(notebooks)
    assert run.main(["--panel", tiny_panel, "--models", "tiny-olmo", "--revisions", "step0"]) == 1
    error = capsys.readouterr().err
    assert "broken on purpose" in error and "1 runs failed" in error
    done, failed = (jobs.status_of(job.output) for job in jobs.plan(tiny_panel, None, ["tiny-olmo"], ["step0"]))
    assert done["status"] == "done" and done["record"]["id"] == "F1" and done["error"] is None
    assert failed["status"] == "failed" and failed["error"] == "RuntimeError: broken on purpose"
    text = jobs.plan(tiny_panel, ["F2"], ["tiny-olmo"], ["step0"])[0].output.read_text()
    assert "broken on purpose" in text and "Traceback" in text and "**This run failed.**" in text

    # A failed run is tried again; one whose notebook was mended succeeds.
    shutil.copy(ROOT / "notebooks" / "F2_sink_shapes.ipynb", notebooks)
    assert run.main(["--panel", tiny_panel, "--models", "tiny-olmo", "--revisions", "step0"]) == 0
    assert "2 runs, 1 unchanged" in capsys.readouterr().err


@pytest.mark.slow
def test_a_causal_table_that_cannot_be_measured_is_said_and_stops_no_notebook(tiny_panel, notebooks, capsys):
    blocked = results_dir("tiny") / "causal"
    blocked.mkdir(parents=True)
    (blocked / "tiny-olmo").write_text("a file where a folder should be")
    assert run.main(["--panel", tiny_panel, "--models", "tiny-olmo", "--findings", "F1", "--revisions", "step0"]) == 1
    error = capsys.readouterr().err
    assert "could not measure the causal table of tiny-olmo step0" in error and "runs failed" not in error
    assert jobs.status_of(jobs.plan(tiny_panel, ["F1"], ["tiny-olmo"], ["step0"])[0].output)["status"] == "done"


@pytest.mark.slow
def test_a_kernel_that_dies_fails_its_run_only(tiny_panel, notebooks, capsys):
    break_notebook(notebooks, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    assert run.main(["--panel", tiny_panel, "--models", "tiny-olmo", "--revisions", "step0"]) == 1
    f1, f2 = (jobs.status_of(job.output) for job in jobs.plan(tiny_panel, None, ["tiny-olmo"], ["step0"]))
    assert f1["status"] == "done" and f2["status"] == "failed" and "died" in f2["error"].lower()


def test_a_kernel_ends_with_the_process_that_wanted_it(tiny_panel, notebooks, tmp_path):
    note = tmp_path / "pid"
    break_notebook(notebooks, f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    [job] = jobs.plan(tiny_panel, ["F2"], ["tiny-olmo"], ["step0"])
    heads.trajectory(load_panel(tiny_panel), "tiny-olmo")
    process = run.fork_server().Process(target=run.execute, args=(job, "key"))
    process.start()
    wait_until(lambda: note.exists() and note.read_text())
    kernel = psutil.Process(int(note.read_text()))
    process.kill()
    wait_until(lambda: not kernel.is_running() or kernel.status() == psutil.STATUS_ZOMBIE)


def test_processes_of_many_threads_keep_their_results_and_exit_codes_apart():
    context = run.fork_server()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: run.in_process(context, abs, -n), range(100)))
        assert found == [(n, 0) for n in range(100)]
        assert list(pool.map(lambda n: run.in_process(context, os._exit, n), range(8))) == [(None, n) for n in range(8)]


@pytest.mark.slow
def test_a_changed_notebook_is_executed_again_and_an_unchanged_one_is_not(tiny_panel, notebooks, capsys):
    narrow = ["--panel", tiny_panel, "--models", "tiny-neox", "--revisions", "step0"]
    assert run.main(narrow) == 0
    (path,) = notebooks.glob("F2_*.ipynb")
    path.write_text(path.read_text().replace("How do attention sinks spread", "How, then, do attention sinks spread"))
    capsys.readouterr()
    assert run.main(narrow) == 0
    assert "2 runs, 1 unchanged" in capsys.readouterr().err


# One notebook alone ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("finding", FINDINGS)
def test_every_notebook_runs_by_itself_through_papermill(tiny_panel, tmp_path, finding):
    """As on the page "Reproduce it": from the root, head tables measured on demand; it shows what lib.report.execution's forked kernels show."""
    out = tmp_path / "out.ipynb"
    line = [
        "-m",
        "papermill",
        f"notebooks/{jobs.notebook_of(finding).name}",
        str(out),
        "--log-level",
        "ERROR",
        "--no-progress-bar",
    ]
    line += ["-p", "panel", tiny_panel, "-p", "model", "tiny-neox", "-p", "revision", "step1000"]
    result = subprocess.run([sys.executable, *line], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    shown = shown_by(out)
    html = "".join(d.get("text/html", "") for d in shown)
    prose = "".join(d.get("text/markdown", "") for d in shown)
    assert 'alt="' in html and 'download="' in html and "<table" in html
    assert any(f"**{v}" in prose.lower() for v in ("holds", "fails", "undetermined"))
    assert "Tiny-neox at step1000" in prose

    narrow = ["--findings", finding, "--models", "tiny-neox", "--revisions", "step1000", "--skip", "causal"]
    assert run.main(["--panel", tiny_panel, *narrow]) == 0
    for data in shown:
        data.pop(jobs.RECORD_MIME, None)  # kept in the notebook's metadata
    assert shown_by(jobs.plan(tiny_panel, [finding], ["tiny-neox"], ["step1000"])[0].output) == shown


@pytest.mark.slow
def test_a_run_that_reads_measured_tables_imports_no_torch(tiny_panel, tmp_path, monkeypatch):
    for finding in FINDINGS:
        notebook = nbformat.read(jobs.notebook_of(finding), as_version=4)
        notebook.cells.append(nbformat.v4.new_code_cell("import sys\nassert 'torch' not in sys.modules"))
        nbformat.write(notebook, tmp_path / jobs.notebook_of(finding).name)
    monkeypatch.setattr(jobs, "NOTEBOOKS", tmp_path)
    narrow = ["--models", "tiny-neox", "--revisions", "step1000", "--skip", "causal"]
    assert run.main(["--panel", tiny_panel, *narrow]) == 0


def shown_by(path):
    """The outputs of an executed notebook, without its streams."""
    return [o.data for c in nbformat.read(path, as_version=4).cells for o in c.get("outputs", []) if "data" in o]


def test_notebooks_have_no_outputs_and_take_three_parameters():
    for path in jobs.notebooks().values():
        notebook = nbformat.read(path, as_version=4)
        assert not any(c.get("outputs") or c.get("execution_count") for c in notebook.cells)
        (parameters,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
        assert [line.split(" = ")[0] for line in parameters.source.splitlines()] == ["panel", "model", "revision"]


def test_notebooks_run_from_their_own_folder_with_their_own_parameters_known_to_the_panel():
    for path in jobs.notebooks().values():
        (cell,) = [c for c in nbformat.read(path, as_version=4).cells if "parameters" in c.metadata.get("tags", [])]
        given = {}
        exec(cell.source, given)  # noqa: S102 - three assignments of our own
        load_panel(given["panel"]).model(given["model"]).revision(given["revision"])
    assert set(TINY)  # the panel of the other tests is not the default one
