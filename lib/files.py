"""Where things are and how they are written: everything is found from the project's root, wherever a program is started."""

import difflib
import os
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class UserError(Exception):
    """A mistake that the message explains: shown without a traceback, in notebooks too."""

    def _render_traceback_(self):  # IPython asks an exception for its own rendering
        return [f"{type(self).__name__}: {self}"]


def nearest(name, known):
    """A sentence that offers the names closest to a wrong one."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
    return f"Nearest: {', '.join(close)}." if close else f"Known: {', '.join(known)}."


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
