"""Measuring what is missing of a panel: local checkpoints side by side, those of a hub one after another.

Of a hub's checkpoints the next one is downloaded while the current one is measured, and with
evict each leaves the cache once its tables are safe, so that a disk for two of them is enough.
A model's last revision comes first: the causal tables of all others need its circuit, and so
each is downloaded once.  Kill it anywhere and start it again: tables that are finished stay.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool

from filelock import Timeout
from tqdm import tqdm

from lib import numerics, panels
from lib.files import UserError
from lib.formatting import bytes_text
from lib.tables import causal, heads, patterns, preflight

# In this order: the second needs the first.
MEASUREMENTS = {"head table": heads, "causal table": causal, "attention table": patterns}
GLANCE = 0.2  # seconds between looks at what the worker processes do


class Refused(UserError):
    """What the preflight found cannot work; the message says why."""


def pending(panel: panels.Panel, models, revisions=None, kinds=tuple(MEASUREMENTS)) -> list[tuple[str, str, list[str]]]:
    """What is missing or stale: [(model, revision, kinds)], a model's last revision first.

    revisions: only these (all if None), and the last one's head table if a causal table needs it.
    """
    found = []
    for model in models:
        *names, last = [r.name for r in panel.model(model).revisions]
        of = {
            name: missing_of(panel, model, name, kinds) for name in [last, *names] if not revisions or name in revisions
        }
        if last not in of and any("causal table" in missing for missing in of.values()):
            of = {last: missing_of(panel, model, last, ["head table"])} | of
        found += [(model, name, missing) for name, missing in of.items() if missing]
    return found


def missing_of(panel: panels.Panel, model: str, revision: str, kinds) -> list[str]:
    """The kinds of table of a checkpoint that are missing or stale."""
    return [kind for kind in kinds if MEASUREMENTS[kind].current(panel, model, revision) is None]


def measure_missing(
    panel_argument, models, workers: int, revisions=None, kinds=tuple(MEASUREMENTS), evict: bool = False
) -> dict[tuple[str, str, str], str]:
    """Measure the tables that are missing or stale; returns {(kind, model, revision): error}.

    revisions, kinds: only these.  Local checkpoints: `workers` at a time.  evict: see above.
    Raises Refused before anything is computed if a checkpoint of a hub cannot be had.
    """
    panel = panels.load_panel(panel_argument)
    on_hub = [m for m in models if panel.model(m).hub]
    local = [m for m in models if m not in on_hub]
    ours = [m for m in local if panels.is_ours(m, panel.model(m))]
    failed: dict[tuple[str, str, str], str] = {}
    for pinned, group in ((True, ours), (False, [m for m in local if m not in ours])):
        with numerics.inherited(pinned):
            failed |= _measure_local(panel_argument, pending(panel, group, revisions, kinds), workers, pinned)
    if on_hub:
        with numerics.inherited(pinned=False):
            failed |= _Sweep(panel_argument, pending(panel, on_hub, revisions, kinds), evict).run()
        if evict:
            _evict_finished(panel, on_hub, revisions, kinds)
    return failed


@contextlib.contextmanager
def stoppable(pool):
    """A pool that drops what is queued when the block is left by an exception, such as Ctrl-C."""
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


# In a worker process -----------------------------------------------------------------

_sequences = None  # shared with the parent: sequences that went through a model


def _start_worker(sequences=None, pinned=False):
    global _sequences
    _sequences = sequences
    if pinned:
        numerics.pin()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker at once; the parent tells the user

    def end_with_parent():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _measure(panel_argument, model, revision, kinds, share):
    """Load a checkpoint once and measure tables of it; returns {kind: what went wrong}.  share: of the cores, 1 / n."""
    import torch

    if numerics.told() != "pinned":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // share))
    panel, kind = panels.load_panel(panel_argument), kinds[0]
    try:
        loaded = panels.load(panel.model(model), revision, panels.device(panel.device))
        if _sequences is not None:
            loaded.get_input_embeddings().register_forward_hook(_count)
        for kind in kinds:
            MEASUREMENTS[kind].measure(panel, model, revision, loaded)
        del loaded
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    except Exception as error:  # noqa: BLE001 - the parent reports it, and other checkpoints go on
        return {kind: str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"}
    return {}


def _count(_module, inputs, _output):
    with _sequences.get_lock():
        _sequences.value += len(inputs[0])


class _Worker:
    """One process that does one thing after another; a new one if it dies."""

    def __init__(self, *initial):
        self.initial, self.pool = initial, None

    def submit(self, function, *arguments):
        if self.pool is None:
            context = multiprocessing.get_context("spawn")
            self.pool = ProcessPoolExecutor(1, context, _start_worker, self.initial)
        return self.pool.submit(function, *arguments)

    def stop(self, now=False):
        """End the process: after its work, or now."""
        if self.pool is not None:
            if now:
                for process in list(self.pool._processes.values()):
                    process.terminate()
            self.pool.shutdown(wait=not now, cancel_futures=True)
        self.pool = None


# Local checkpoints -------------------------------------------------------------------


def _measure_local(panel_argument, todo, workers, pinned):
    """First all head tables, then the causal tables of the models whose head tables are all there."""
    failed = {}
    context = multiprocessing.get_context("spawn")
    with stoppable(ProcessPoolExecutor(workers, context, _start_worker, (None, pinned))) as pool:
        for kind in MEASUREMENTS:
            incomplete = {model for _, model, _ in failed}
            wanted = [(m, r) for m, r, kinds in todo if kind in kinds and m not in incomplete]
            futures = {pool.submit(_measure, panel_argument, *which, [kind], workers): which for which in wanted}
            said = {"desc": f"measuring {kind}s", "unit": "checkpoint", "disable": not wanted}
            bar = tqdm(as_completed(futures), total=len(wanted), **said)
            for future in bar:
                error = str(future.exception() or "") or future.result().get(kind)
                if error:
                    failed[kind, *futures[future]] = error
    return failed


# Checkpoints of a hub ----------------------------------------------------------------


class _Download:
    """One revision on its way into the cache, under the lock that keeps other sweeps from evicting it."""

    def __init__(self, panel, model, revision, kinds, worker):
        self.panel, self.model, self.revision, self.kinds, self.worker = panel, model, revision, kinds, worker
        self.repo = panel.model(model).hub
        self.lock, self.future, self.waiting = panels.hub.hold(self.repo, revision), None, False

    def advance(self):
        """Start if nobody else holds the revision; returns whether it is here, has failed or is not wanted any more."""
        if self.future is None and not self.lock.is_locked:
            try:
                self.lock.acquire(timeout=0)
            except Timeout:
                if not self.waiting:
                    tqdm.write(
                        f"another sweep has {self.repo} at {self.revision} in hand: waiting for it", file=sys.stderr
                    )
                self.waiting = True
                return False
            # Whoever held it may have measured it.
            self.kinds = missing_of(self.panel, self.model, self.revision, self.kinds)
        if self.kinds and self.future is None:
            self.future = self.worker.submit(panels.hub.fetch, self.repo, self.revision)
        return not self.kinds or self.future.done()


class _Sweep:
    """One pass over [(model, revision, kinds)] of a panel."""

    def __init__(self, panel_argument, todo, evict):
        self.panel_argument, self.panel = panel_argument, panels.load_panel(panel_argument)
        self.todo, self.evict, self.failed = todo, evict, {}
        self.sequences = multiprocessing.get_context("spawn").Value("Q", 0)
        self.measuring, self.downloading = _Worker(self.sequences), _Worker()
        self.snapshots, self.current, self.finished_bytes, self.finished_sequences = {}, (), 0, 0

    def run(self):
        """Measure everything; returns {(kind, model, revision): error}."""
        if not self.todo:
            return {}
        try:
            self._preflight()
            self._measure_all()
        except BaseException:
            self.measuring.stop(now=True)
            self.downloading.stop(now=True)
            raise
        self.measuring.stop()
        self.downloading.stop()
        return self.failed

    def _preflight(self):
        # In the worker: it has torch, and this process stays small.
        checkpoints = [(model, revision) for model, revision, _ in self.todo]
        report = self.measuring.submit(preflight.check, self.panel, checkpoints, checkpoints, self.evict).result()
        for warning in report.warnings:
            print(f"note: {warning}", file=sys.stderr)
        if report.problems:
            raise Refused(report.text())
        self.snapshots = report.snapshots

    def _measure_all(self):
        downloads = [_Download(self.panel, *item, self.downloading) for item in self.todo]
        total = sum(self._planned(kinds) for _, _, kinds in self.todo)
        with tqdm(total=total, unit="seq", mininterval=0.5 if sys.stderr.isatty() else 20) as self.bar:
            for number, (now, ahead) in enumerate(zip(downloads, [*downloads[1:], None]), 1):
                self.bar.set_description(f"{now.model} {now.revision} ({number} of {len(downloads)})", refresh=False)
                self.current = now, ahead
                self._until(now.advance)
                self._one(now, ahead)
                self.finished_sequences += self._planned(self.todo[number - 1][2])
                self.finished_bytes += self.snapshots[now.model, now.revision].size
                self.sequences.value, self.current = 0, (ahead,)
                self._show()

    def _one(self, now, ahead):
        """Measure a checkpoint that has arrived, while the next one is downloading."""
        try:
            if isinstance(now.future and now.future.exception(), panels.hub.DiskFull):
                now.future = None  # the one before it has left the cache by now
                self._until(now.advance)
            if now.future and now.future.exception():
                self._fail(now, {now.kinds[0]: str(now.future.exception())}, self.downloading, now.future)
                return
            last = self.panel.model(now.model).revisions[-1].name
            if ("head table", now.model, last) in self.failed:
                now.kinds = [k for k in now.kinds if k != "causal table"]  # its circuit is not known
            if now.kinds:
                job = self.measuring.submit(_measure, self.panel_argument, now.model, now.revision, now.kinds, 1)
                self._until(job.done, ahead, job)
                error = job.exception()
                self._fail(now, {now.kinds[0]: str(error)} if error else job.result(), self.measuring, job)
            if self.evict and not any(key[1:] == (now.model, now.revision) for key in self.failed):
                panels.hub.evict(now.repo, now.revision)
        finally:
            now.lock.release()

    def _fail(self, of, errors, worker, future):
        """Note what went wrong; a process that died or may be in a bad state is not used again."""
        for kind, error in errors.items():
            if isinstance(future.exception(), BrokenProcessPool):
                error = "the process died, most likely killed for want of memory; run again, or choose a smaller dtype"
            self.failed[kind, of.model, of.revision] = error
            tqdm.write(f"failed: {kind} of {of.model} {of.revision}: {error}", file=sys.stderr)
        if errors and worker is self.measuring or isinstance(future.exception(), BrokenProcessPool):
            worker.stop(now=True)

    def _until(self, done, ahead=None, job=None):
        """Wait, keep the next download going and the bar moving."""
        while not done():
            if ahead is not None:
                ahead.advance()
            if job is not None:
                wait([job], timeout=GLANCE)
            else:
                time.sleep(GLANCE)
            self._show()

    def _planned(self, kinds):
        """Sequences that go through the model for these tables."""
        n = self.panel.batch.n_sequences
        of = {
            "head table": n + heads.n_repeated(self.panel),
            "causal table": min(causal.N_SEQUENCES, n),
            "attention table": min(patterns.N_SEQUENCES, n),
        }
        return sum(of[kind] for kind in kinds)

    def _show(self):
        """Sequences, time left and bytes: of what is finished, in hand and on its way."""
        here = [self.snapshots[d.model, d.revision].bytes_present() for d in self.current if d is not None]
        whole = sum(snapshot.size for snapshot in self.snapshots.values())
        self.bar.n = min(self.bar.total, self.finished_sequences + self.sequences.value)
        self.bar.set_postfix_str(f"{bytes_text(self.finished_bytes + sum(here))} of {bytes_text(whole)}", refresh=False)
        self.bar.update(0)


def _evict_finished(panel, models, revisions, kinds):
    """Also what an earlier, interrupted or frugal start has left in the cache."""
    missing = {(model, revision) for model, revision, _ in pending(panel, models, revisions, kinds)}
    for model in models:
        repo = panel.model(model).hub
        for name in [r.name for r in panel.model(model).revisions]:
            if (not revisions or name in revisions) and (model, name) not in missing:
                with contextlib.suppress(Timeout), panels.hub.hold(repo, name).acquire(timeout=0):
                    panels.hub.evict(repo, name)
