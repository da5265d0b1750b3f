"""Execute the notebooks of a panel: one papermill run for every finding, model and revision.

    python -m lib.run --panel mini [--findings F1 F2] [--models olmo-mini] [--revisions step0] [--jobs 2]
    python -m lib.run --panel paper --check        what it would take, before anything is computed

First the head tables, causal tables and attention rows that are missing or stale are measured, then the
notebooks are executed, each in a process of its own.  What has not changed is skipped.  Kill it
anywhere and run it again: finished runs stay, nothing half-written is read.
"""

import argparse
import contextlib
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from multiprocessing import connection, forkserver
from pathlib import Path

import nbformat
from tqdm import tqdm
from traitlets.config import Config

from lib import tables
from lib.files import ROOT, UserError, atomic
from lib.report.jobs import METADATA, RECORD_MIME, check, is_done, keys_of, kinds, plan, same_weights

DEVICES = ("auto", "cuda", "mps", "cpu")
KERNEL_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
PRELOADED = [
    "papermill",
    "ipykernel.kernelapp",
    "lib.figures.display",
    "lib.figures.of_run",
    "lib.panels.panel",
    "lib.report.forked_kernels",
    "lib.report.run_page",
    "lib.tables.heads",
]
TIMEOUT = 1800  # seconds a cell may take: a notebook may have to measure a large checkpoint


def execute(job, key):
    """In a process of its own: run one notebook and put it in its place, failed or not."""
    from papermill.exceptions import PapermillExecutionError

    with tempfile.TemporaryDirectory(prefix="run-") as scratch:
        executed = Path(scratch, "out.ipynb")
        error = None
        try:
            through_papermill(job, executed)
        except PapermillExecutionError as raised:
            error = f"{raised.ename}: {raised.evalue}"
        except Exception as raised:  # noqa: BLE001 - a dead kernel, a timeout: the run failed, the others go on
            error = f"{type(raised).__name__}: {raised}"
        source = executed if executed.exists() else job.notebook
        put_in_place(source, job, key, error)
    return error


def through_papermill(job, executed):
    """Execute a job's notebook into a file; the kernel is a fork of this process.

    It talks over local sockets in the file's folder (parallel kernels on TCP ports
    collide) and has an IPython folder of its own there (so do history files).  Raises what papermill raises.
    """
    import papermill

    from lib.report.forked_kernels import forked_kernel

    for name, folder in (("IPYTHONDIR", "ipython"), ("JUPYTER_RUNTIME_DIR", "jupyter")):
        os.environ[name] = str(executed.with_name(folder))
    os.environ |= KERNEL_ENVIRONMENT
    with contextlib.chdir(ROOT), forked_kernel() as kernel_manager:
        return papermill.execute_notebook(
            job.notebook,
            executed,
            parameters=job.parameters,
            kernel_name="python3",
            progress_bar=False,
            log_output=False,
            cwd=ROOT,
            execution_timeout=TIMEOUT,
            shutdown_kernel="immediate",  # it has nothing to save
            kernel_manager_class=kernel_manager,
            config=Config(KernelManager={"transport": "ipc", "ip": str(executed.with_name("k"))}),
        )


def put_in_place(source, job, key, error):
    """Make a page of an executed notebook, or of the template if nothing was executed, and save it."""
    notebook = finish(nbformat.read(source, as_version=4), job, key, error)
    with atomic(job.output) as path:
        nbformat.write(notebook, path)


def finish(notebook, job, key, error):
    """Make an executed notebook a page: its own title, no times or paths, and status_of in its metadata."""
    cells = [c for c in notebook.cells if "papermill-error-cell-tag" not in c.metadata.get("tags", [])]
    if job.title:
        cells[0].source = re.sub(r"\A# .*", f"# {job.title}", cells[0].source)
    record = None
    if error:
        cells.insert(1, nbformat.v4.new_markdown_cell(f"**This run failed.** `{error}`\n\nThe traceback stands below."))
        cells[1]["id"] = "failure"
    for cell in cells:
        tags = list(cell.metadata.get("tags", []))
        if "injected-parameters" in tags:
            tags.append("remove-cell")
            cell["id"] = "injected-parameters"
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                output.traceback = [_without_paths(line) for line in output.traceback]
            record = output.get("data", {}).pop(RECORD_MIME, record)
    notebook.cells = cells
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
            METADATA: {"key": key, "status": "failed" if error else "done", "error": error, "record": record},
        }
    )
    return notebook


def _without_paths(text):
    """Paths of this machine say nothing to a reader and make equal runs differ."""
    return text.replace(str(ROOT) + "/", "").replace(sys.prefix + "/", "")


def fork_server():
    """Processes that begin with what runs import; it is imported once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    mine = dict(os.environ)
    os.environ |= KERNEL_ENVIRONMENT  # libraries read it when they are imported
    try:
        forkserver.ensure_running()
    finally:
        os.environ.clear()
        os.environ |= mine
    return context


def _execute_in_process(context, job, key):
    """Run a job in a fresh process; returns None or what went wrong, also if the process died."""
    error, exit_code = in_process(context, execute, job, key)
    if exit_code == -signal.SIGINT:
        return "interrupted"
    if exit_code:
        error = f"the process ended with exit code {exit_code}"
        put_in_place(job.notebook, job, key, error)
    return error


# Starting a process, multiprocessing also collects the exit codes of all that have ended, and in two threads at a time
# each takes them from the other.
_one_thread = threading.Lock()


def in_process(context, function, *arguments):
    """Call a function in a fresh process, from any thread: (what it returned, exit code); (None, exit code) if it died."""
    parent, child = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(child, dict(os.environ), function, arguments))
    with _one_thread:
        process.start()
    child.close()
    try:
        result = parent.recv()
    except EOFError:
        result = None
    connection.wait([process.sentinel])
    with _one_thread:
        process.join()
    return result, process.exitcode


def _send_result(pipe, environment, function, arguments):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a run at once; the parent tells the user
    os.environ |= environment  # the fork server has kept the one it was started with
    pipe.send(function(*arguments))


def run(panel_argument, findings=None, models=None, revisions=None, workers=2, skip=(), evict=False):
    """Run a panel, with the lessons unless it is narrowed.

    Raises PanelError for wrong names, lib.tables.sweep.Refused if a checkpoint cannot be had.

    workers: measurements at a time; of notebooks it is one more, since each waits a third of its time for its kernel.
    skip: "causal" tables, "notebooks" or both.  A notebook looks at a model's whole
    training, so that only without notebooks `revisions` alone are measured.
    evict: remove a hub's checkpoints from the cache once their tables are safe.

    Returns ({job: error} of the runs that failed, lib.tables.sweep.measure_missing's errors).
    """
    jobs = plan(panel_argument, findings, models, revisions)
    whole = not (findings or models or revisions)
    models = list(dict.fromkeys(job.model for job in jobs))
    only = revisions if "notebooks" in skip else None
    unmeasured = tables.sweep.measure_missing(panel_argument, models, workers, only, kinds(skip), evict)
    for (what, model, revision), error in unmeasured.items():
        print(f"could not measure the {what} of {model} {revision}: {error}", file=sys.stderr)
    for warning in same_weights(panel_argument, models):
        print(f"note: {warning}", file=sys.stderr)
    if "notebooks" in skip:
        return {}, unmeasured
    keys = keys_of(jobs, with_lessons=whole)
    todo = [job for job in keys if not is_done(job, keys[job])]
    print(f"{len(keys)} runs, {len(keys) - len(todo)} unchanged", file=sys.stderr)
    failed = {}
    context = fork_server()
    with tables.sweep.stoppable(ThreadPoolExecutor(workers + 1)) as pool:
        futures = {pool.submit(_execute_in_process, context, job, keys[job]): job for job in todo}
        finished = as_completed(futures)
        for future in tqdm(finished, total=len(todo), desc="executing notebooks", unit="run", disable=not todo):
            error = future.exception() or future.result()
            if error:
                failed[futures[future]] = str(error)
                tqdm.write(f"failed: {futures[future]}: {error}", file=sys.stderr)
    return failed, unmeasured


def main(arguments=None):
    """Command line; returns 0, 1 if a run or a measurement failed, 2 for a mistake in the arguments or the panel."""
    parser = argparse.ArgumentParser(prog="python -m lib.run", description="Execute the notebooks of a panel.")
    parser.add_argument("--panel", default="mini", help="name of a file in panels/, or a path (default: mini)")
    parser.add_argument("--findings", nargs="+", metavar="F", help="only these findings")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="only these models")
    parser.add_argument("--revisions", nargs="+", metavar="REVISION", help="only these revisions")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cores to use (default: all)")
    parser.add_argument("--check", action="store_true", help="only say what is there and what it would take")
    parser.add_argument("--device", choices=DEVICES, help="where models are measured (default: what the panel says)")
    evict = "remove each checkpoint of a hub from the cache once its tables are safe"
    parser.add_argument("--evict", action="store_true", help=evict)
    skippable = {"nargs": "+", "choices": ("causal", "notebooks"), "default": ()}
    parser.add_argument("--skip", **skippable, help="leave out causal tables, notebooks or both")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs: expected 1 or more")
    if options.device:
        os.environ["CIRCUITS_DEVICE"] = options.device  # the processes that measure read it
    which = options.models, options.revisions
    try:
        if options.check:
            return check(options.panel, *which, options.skip, options.evict)
        failed, unmeasured = run(options.panel, options.findings, *which, options.jobs, options.skip, options.evict)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; what is finished is kept, the next start goes on from there", file=sys.stderr)
        return 130
    if failed:
        print(f"{len(failed)} runs failed; their notebooks keep the traceback:", file=sys.stderr)
        for job in failed:
            print(f"  {os.path.relpath(job.output)}", file=sys.stderr)
    return 1 if failed or unmeasured else 0
