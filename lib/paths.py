"""Where things are: everything is found from the project's root, wherever a program is started."""

import os
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def results_dir(panel_name):
    """Head tables and executed notebooks of a panel; CIRCUITS_RESULTS moves them elsewhere."""
    return Path(os.environ.get("CIRCUITS_RESULTS", ROOT / "results")) / panel_name


@contextmanager
def atomic(path):
    """Write to the yielded temporary path; it takes its final name only if the block succeeds.

    A kill leaves at most a *.tmp file behind, which nothing reads.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
