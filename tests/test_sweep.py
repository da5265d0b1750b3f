"""The sweep over a hub's checkpoints from end to end, and what is left of it when it is killed anywhere."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import HUB, ROOT
from hub_server import OLMOE, WEIGHTS, blobs, cache

from lib.files import results_dir
from lib.panels import load_panel
from lib.report import jobs
from lib.tables import heads


def command(*arguments):
    return [sys.executable, "-m", "lib.run", "--panel", "paper", "--jobs", "2", *arguments]


def start(*arguments):
    return subprocess.Popen(
        command(*arguments),
        cwd=ROOT,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def kill(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def until(condition, process, seconds=120):
    deadline = time.time() + seconds
    while not condition() and process.poll() is None and time.time() < deadline:
        time.sleep(0.01)
    assert condition(), process.communicate()[0]


def contents(models=("pythia-1b",), kinds=("heads", "causal")):
    """{table: hash of its numbers} of what is on disk."""
    panel, found = load_panel("paper"), {}
    for kind in kinds:
        for path in (results_dir(panel.name) / kind).rglob("*.parquet"):
            if path.parent.name in models:
                found[f"{kind}/{path.parent.name}/{path.stem}"] = pd.read_parquet(path).attrs["provenance"]["content"]
    return found


SOME = ("--models", "pythia-1b", "--revisions", "step1", "step143000", "--skip", "notebooks")


def expected(undisturbed, *revisions):
    return {k: v for k, v in undisturbed.items() if k.split("/")[1] == "pythia-1b" and k.split("/")[2] in revisions}


@pytest.fixture(scope="module")
def undisturbed(_stocked, tmp_path_factory):
    """The paper's panel from end to end, nobody in its way: hashes of its 60 tables, and what was seen on the way."""
    folder = tmp_path_factory.mktemp("undisturbed")
    HUB.reset()
    shutil.rmtree(cache(), ignore_errors=True)
    (folder / "panels").mkdir()
    (folder / "panels" / "paper.yml").write_text(yaml.safe_dump(_stocked, sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCUITS_PANELS", str(folder / "panels"))
        patch.setenv("CIRCUITS_RESULTS", str(folder / "results"))
        process, held = start("--skip", "notebooks", "--evict"), [0]

        def watch():
            while process.poll() is None:
                held[0] = max(held[0], len({p.name for p in blobs() if len(p.name) > 40}))
                time.sleep(0.02)

        watcher = threading.Thread(target=watch)
        watcher.start()
        output = process.communicate()[0]
        watcher.join()
        assert process.returncode == 0, output
        tables = contents(models=tuple(load_panel("paper").models))
    return {"tables": tables, "held": held[0], "requests": list(HUB.requests), "output": output, "folder": folder}


@pytest.mark.slow
def test_the_papers_panel_runs_from_end_to_end_on_a_disk_for_two_checkpoints(undisturbed, hub):
    panel = load_panel("paper")
    assert len(undisturbed["tables"]) == 60 and len(set(undisturbed["tables"].values())) > 30
    downloads = [
        path for method, path, _ in undisturbed["requests"] if method == "GET" and path.endswith(".safetensors")
    ]
    assert len(downloads) == len(set(downloads)) == 10 + 10 + 10 * 3  # each file once, parts of OLMoE among them
    order = list(
        dict.fromkeys(hub.find(p.split("/resolve/")[0][1:], p.split("/resolve/")[1].split("/")[0]) for p in downloads)
    )
    assert order[:3] == ["step143000", "step1", "step4"]  # the last revision's circuit is needed for all
    assert not any("/main" in path for _, path, _ in undisturbed["requests"])
    assert undisturbed["held"] <= 2 * 3 and not [p for p in blobs() if len(p.name) > 40]
    assert (
        "(30 of 30)" in undisturbed["output"] and "seq/s" in undisturbed["output"] and "MB of" in undisturbed["output"]
    )
    assert panel.batch.n_sequences == 12


@pytest.mark.slow
def test_its_notebooks_run_and_it_never_does_anything_twice(undisturbed, hub, monkeypatch):
    monkeypatch.setenv("CIRCUITS_RESULTS", str(undisturbed["folder"] / "results"))
    one = ("--models", "olmoe-1b-7b-0924", "--findings", "F1", "F4", "--revisions", "step1220000-tokens5117B")
    for said in ("2 runs, 0 unchanged", "2 runs, 2 unchanged"):
        done = subprocess.run(command(*one), cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and said in done.stderr, done.stderr
    assert not hub.requests
    text = jobs.plan("paper", ["F1"], ["olmoe-1b-7b-0924"], ["step1220000-tokens5117B"])[0].output.read_text()
    assert hub.commit(OLMOE, "step1220000-tokens5117B")[:10] in text


@pytest.mark.slow
def test_killed_while_downloading_it_loses_that_download_only(hub, undisturbed):
    hub.fault("slow", path=WEIGHTS, method="GET", pause=30, times=1)
    process = start(*SOME)
    until(lambda: blobs("*.incomplete"), process)
    kill(process)
    assert blobs("*.incomplete") and not contents()
    hub.reset()
    again = subprocess.run(command(*SOME), cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert contents() == expected(undisturbed["tables"], "step1", "step143000")
    assert not blobs("*.incomplete")


@pytest.mark.slow
def test_killed_while_measuring_it_keeps_what_is_finished(hub, undisturbed):
    process = start(*SOME)
    until(contents, process)
    kill(process)
    before = contents()
    times = {p: p.stat().st_mtime_ns for p in results_dir("paper").rglob("*.parquet")}
    again = subprocess.run(command(*SOME), cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert contents() == expected(undisturbed["tables"], "step1", "step143000") and before.items() <= contents().items()
    assert all(p.stat().st_mtime_ns == t for p, t in times.items()), "a finished table was made again"


def test_killed_while_writing_nothing_half_written_is_read(hub):
    script = (
        "import os, signal, pandas\n"
        "from lib.panels import load_panel; from lib.tables import heads\n"
        "whole = pandas.DataFrame.to_parquet\n"
        "def half(self, path, **kw):\n"
        "    whole(self, path, **kw); os.truncate(path, os.path.getsize(path) // 2); os.kill(os.getpid(), signal.SIGKILL)\n"
        "pandas.DataFrame.to_parquet = half\n"
        "heads.measure(load_panel('paper'), 'pythia-1b', 'step1')\n"
    )
    died = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True)
    assert died.returncode == -signal.SIGKILL
    (left,) = (results_dir("paper") / "heads" / "pythia-1b").iterdir()
    assert left.suffix == ".tmp"
    panel = load_panel("paper")
    assert heads.read(panel, "pythia-1b", "step1") is None
    assert heads.head_table(panel, "pythia-1b", "step1") is not None


def test_a_worker_does_not_outlive_its_parent(hub):
    hub.fault("slow", path=WEIGHTS, method="GET", pause=60)
    process = start(*SOME)
    until(lambda: blobs("*.incomplete"), process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(process.pid, signal.SIGKILL)  # the parent only
    process.wait()
    deadline = time.time() + 30
    alive = children
    while alive and time.time() < deadline:
        alive = [
            p
            for p in alive
            if Path(f"/proc/{p}/stat").exists() and Path(f"/proc/{p}/stat").read_text().split(") ")[1][0] != "Z"
        ]
        time.sleep(0.05)
    assert children and not alive


@pytest.mark.slow
def test_interrupted_at_random_it_ends_with_the_same_tables(hub, undisturbed):
    """CIRCUITS_KILLS=20 does it twenty times."""
    rng, kills = random.Random(7), int(os.environ.get("CIRCUITS_KILLS", "2"))
    wanted = {k: v for k, v in undisturbed["tables"].items() if "/pythia-1b/" in k}
    arguments = ("--models", "pythia-1b", "--skip", "notebooks", "--evict")
    process, started = start(*arguments), time.time()
    until(contents, process)
    usual = time.time() - started  # a start takes so long here, up to the first table
    while kills:
        time.sleep(rng.uniform(0, 1.5 * usual))
        kills -= process.poll() is None
        kill(process)
        assert contents().items() <= wanted.items()
        if contents() == wanted:  # it had come to its end: from the beginning again
            shutil.rmtree(results_dir("paper"))
        process = start(*arguments)
    kill(process)
    last = subprocess.run(command(*arguments), cwd=ROOT, capture_output=True, text=True)
    assert last.returncode == 0, last.stderr
    assert contents() == wanted
    assert not blobs("*.incomplete") and not [p for p in blobs() if len(p.name) > 40]


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_work_and_neither_spoils_the_others(hub, undisturbed, tmp_path, monkeypatch):
    arguments = (
        "--models",
        "pythia-1b",
        "--revisions",
        "step1",
        "step4",
        "step143000",
        "--skip",
        "notebooks",
        "--evict",
    )
    first, second = start(*arguments), start(*arguments)
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "elsewhere"))
    third = start(*arguments)  # the same cache, results of its own
    wanted = expected(undisturbed["tables"], "step1", "step4", "step143000")
    for process in (first, second, third):
        output = process.communicate()[0]
        assert process.returncode == 0, output
    assert contents() == wanted
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    assert contents() == wanted
    assert len(hub.asked(WEIGHTS)) <= 2 * 3  # at most once for each place of results
