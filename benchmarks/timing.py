"""Times as medians over interleaved repeats, and peak memory, each in a process of its own."""

import math
import multiprocessing
import os
import statistics
import time
from pathlib import Path

import torch

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def interleaved(contestants, repeats):
    """Median seconds of functions without arguments: {name: seconds}.

    A round calls each of them once, so that a slow moment of the machine falls on all.
    """
    seconds = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, call in contestants.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def peak_memory(prepare, call):
    """By how many MiB the memory of a process rises at most during call(*prepare()); NaN where Linux does not tell.

    Measured in a fresh process, so both must be importable.
    """
    if not Path("/proc/self/clear_refs").exists():
        return math.nan
    context = multiprocessing.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(sending, prepare, call))
    process.start()
    sending.close()
    try:
        return receiving.recv()
    except EOFError:
        raise RuntimeError(f"the process that measured {call} ended early: out of memory?") from None
    finally:
        process.join()


def _measure(pipe, prepare, call):
    torch.set_num_threads(THREADS)
    given = prepare()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts from here
    before = _high_water_mark()
    call(*given)
    pipe.send(_high_water_mark() - before)


def _high_water_mark():
    """MiB, from the kernel, which misses no peak."""
    [line] = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM")]
    return int(line.split()[1]) / 1024
