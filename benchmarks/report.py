"""The benchmark of the report.  A module of its own: the processes whose memory it measures import it, and it imports no torch."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

from lib.files import ROOT, results_dir
from lib.panels.panel import load_panel
from lib.report.execution import fork_server, through_papermill
from lib.report.jobs import plan

MEASURED = ("heads", "causal", "explorer")  # what the report is made from, in results/<panel>/
ONE = "one notebook"
BY_HAND = "one notebook by hand: papermill from the shell"


def report(repeats):
    """The report of the mini panel from measured tables, on all cores: where the seconds go, and memory."""
    whole = pd.DataFrame([_report_in_parts() for _ in range(repeats)]).median()
    name, model = next(iter(load_panel("mini").models.items()))
    jobs = plan("mini", models=[name], revisions=[model.revisions[-1].name])
    parts = pd.DataFrame([_run_of(job) | {BY_HAND: _by_hand(job)} for _ in range(repeats) for job in jobs])
    peak = parts.pop("peak_mib").max()
    table = pd.concat([whole, parts.median()]).rename_axis("what").reset_index(name="seconds")
    table["peak_mib"] = np.where(table["what"] == ONE, peak, np.nan)
    return table


def _report_in_parts():
    """Seconds of each step from measured tables to the built report, and of the same again with nothing changed."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "results", "mini")
        for kind in MEASURED:
            shutil.copytree(results_dir("mini") / kind, results / kind)
        environment = os.environ | {"CIRCUITS_RESULTS": str(results.parent)}

        def seconds(*command):
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=True, capture_output=True)
            return time.perf_counter() - started

        execute = "-m", "lib.run", "--panel", "mini"
        build = (
            "-c",
            f"from pathlib import Path; from lib.report.book import build; raise SystemExit(build('mini', Path({folder!r}))[0])",
        )
        lay_out = (
            "-c",
            f"from pathlib import Path; from lib.report.book import assemble; assemble('mini', Path({folder!r}, '_build', 'site'))",
        )
        found = {"executing the notebooks": seconds(*execute), "building the book": seconds(*build)}
        found["both"] = sum(found.values())
        again = {"executing": seconds(*execute), "building": seconds(*build)}
        found |= {f"nothing changed: {what}": taken for what, taken in again.items()}
        found["nothing changed: both"] = sum(again.values())
        return found | {"of a build: laying out the pages": seconds(*lay_out)}


def _run_of(job):
    """Seconds of one notebook by part, from papermill's own record, and peak memory of its kernel."""
    with ProcessPoolExecutor(1, fork_server()) as pool:
        return pool.submit(_run_in_parts, job).result()


def _run_in_parts(job):
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        executed = through_papermill(job, Path(folder, "out.ipynb"))
        whole = time.perf_counter() - started
    cells = [(c.source, c.metadata.papermill["duration"] or 0.0) for c in executed.cells if c.cell_type == "code"]
    took = lambda kind: sum(seconds for source, seconds in cells if kind(source))  # noqa: E731
    opening = took(lambda source: "open_run" in source)
    figures = took(lambda source: source.startswith("figures."))
    everything = took(lambda source: True)
    return {
        ONE: whole,
        "of one notebook: reading the tables": opening,
        "of one notebook: figures": figures,
        "of one notebook: the other cells": everything - opening - figures,
        "of one notebook: its kernel and files": whole - everything,
        "peak_mib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024,
    }


def _by_hand(job):
    """Seconds of the same notebook in a kernel of its own, started by papermill from the shell."""
    with tempfile.TemporaryDirectory() as folder:
        given = [word for name, value in job.parameters.items() for word in ("-p", name, value)]
        started = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "papermill", job.notebook, Path(folder, "out.ipynb"), *given],
            cwd=ROOT, check=True, capture_output=True,
        )  # fmt: skip
        return time.perf_counter() - started
