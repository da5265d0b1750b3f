"""The Snakefile: its jobs, both profiles, and a real run with a failure in it."""

import os
import re
import subprocess
import sys

import pytest
import yaml
from conftest import ROOT, panel_content, tiny_model

from lib.files import results_dir
from lib.panels.panel import load_panel
from lib.report import jobs

pytestmark = pytest.mark.slow


def snakemake(folder, profile, panel, *arguments):
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory", str(folder)]
    command += ["--profile", str(ROOT / "profiles" / profile), "--config", f"panel={panel}", *arguments]
    # A cluster's settings around the tests are not the tests'.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    "profile, panel", [("local", "paper"), ("slurm", "paper"), ("local", "mini"), ("slurm", "laptop")]
)
def test_a_dry_run_has_a_job_a_checkpoint_and_one_a_finding_and_model(tmp_path, monkeypatch, profile, panel):
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    done = snakemake(tmp_path, profile, panel, "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dict(re.findall(r"^(measure|execute|total) +(\d+)$", done.stdout, re.M))
    assert counts == {"measure": "30", "execute": "15", "total": "46"}
    if profile == "slurm":
        measure, execute = (
            re.search(rf"rule {rule}:.*?resources: ([^\n]*)", done.stdout, re.S)[1] for rule in ("measure", "execute")
        )
        assert "gpu=1" in measure and "runtime=720" in measure and "gpu" not in execute


def test_the_last_revision_comes_first_and_notebooks_wait_for_all_of_their_model(tmp_path, monkeypatch):
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    text = snakemake(tmp_path, "local", "paper", "--dry-run").stdout
    listed = re.findall(r"^rule (?:measure|execute):\n(?:    input: ([^\n]*)\n)?    output: ([^\n]*)$", text, re.M)
    inputs = {output: set(input.split(", ")) - {""} for input, output in listed}
    stamps = results_dir("paper") / "stamps"
    for model, spec in load_panel("paper").models.items():
        first, *others = [str(stamps / "measured" / model / r.name) for r in reversed(spec.revisions)]
        assert inputs[first] == set() and all(inputs[other] == {first} for other in others)
        for finding in jobs.notebooks():
            assert inputs[str(stamps / "executed" / model / finding)] == {first, *others}


def test_a_real_run_keeps_going_resumes_and_does_nothing_twice(tiny_models, tmp_path, monkeypatch):
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    content = panel_content(tiny_models)
    content["models"] = {"tiny-olmo": content["models"]["tiny-olmo"] | {"path": str(tmp_path / "mine")}}
    content["models"]["tiny-olmo"]["revisions"] = [
        {"name": "a", "tokens": 0},
        {"name": "c", "tokens": 20},
    ]
    (tmp_path / "tiny.yml").write_text(yaml.safe_dump(content))
    tiny_model("olmo", 1).save_pretrained(tmp_path / "mine" / "c")
    stamps = results_dir("tiny") / "stamps"
    arguments = ("local", tmp_path / "tiny.yml", "--retries", "0", str(stamps / "executed" / "tiny-olmo" / "F1"))

    failed = snakemake(tmp_path, *arguments)  # a is not there
    assert failed.returncode != 0 and "no checkpoint in" in failed.stderr, failed.stderr
    assert {p.name for p in (stamps / "measured" / "tiny-olmo").iterdir()} == {"c"}
    tables = {p: p.stat().st_mtime_ns for p in (results_dir("tiny") / "heads").rglob("*.parquet")}
    assert len(tables) == 1

    tiny_model("olmo", 9).save_pretrained(tmp_path / "mine" / "a")
    mended = snakemake(tmp_path, *arguments)
    assert mended.returncode == 0, mended.stderr
    assert {p: p.stat().st_mtime_ns for p in tables} == tables, "a finished table was made again"
    assert [jobs.status_of(job.output)["status"] for job in jobs.plan(tmp_path / "tiny.yml", ["F1"])] == ["done"] * 2
    assert not any(jobs.status_of(job.output) for job in jobs.plan(tmp_path / "tiny.yml", ["F2"]))

    assert "Nothing to be done" in (again := snakemake(tmp_path, *arguments)).stdout + again.stderr
    tiny_model("olmo", 10).save_pretrained(tmp_path / "mine" / "a")  # other weights under the same name
    changed = snakemake(tmp_path, *arguments, "--dry-run")
    assert dict(re.findall(r"^(measure|execute|total) +(\d+)$", changed.stdout, re.M))["measure"] == "1"
