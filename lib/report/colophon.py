"""The end of every page: the line that makes it again, what it was made from, how to cite it.

Added when the book is assembled and not by the notebooks, whose bytes hold no seconds and no commit.
"""

import platform
import re

from lib import provenance
from lib.formatting import join
from lib.report import run_page
from lib.report.jobs import papermill_line
from lib.report.markdown import render

PACKAGES = (*run_page.PACKAGES, "seaborn", "jupyter-book")


def of_page(title, report):
    """For a page of the narrative, which was made from all checkpoints of the panel."""
    panel, weights, seconds = report.panel, [], 0.0
    for name, measured in report.measured.items():
        seconds += sum(told["seconds"] for told in measured.values())
        if measured:
            digest = provenance.digest([told["sources"]["weights"] for told in measured.values()])
            weights.append(f"{panel.models[name].label} `{digest[:12]}`")
    n_checkpoints = sum(len(spec.revisions) for spec in panel.models.values())
    facts = [
        f"Panel: {panel.title}, {n_checkpoints} checkpoints, batch seed {panel.batch.seed}",
        f"Weights (SHA-256 over all revisions): {join(weights)}",
        f"Measured in {seconds:.0f} seconds of all checkpoints together",
    ]
    return _colophon(f"python -m lib.book --panel {report.panel_argument}", facts, title)


def of_run(job, report, title):
    """For the page of a run, beside what its notebook says of itself."""
    measured = report.measured[job.model].get(job.revision)
    facts = [f"Panel: {report.panel.title}, batch seed {report.panel.batch.seed}"]
    if measured is not None:
        at = f" at commit `{measured['commit'][:12]}`" if measured["commit"] else ""
        facts += [
            f"Weights: `{measured['sources']['weights'][:64]}`",
            f"Heads measured in {measured['seconds']:.0f} seconds, in {measured['dtype']} on {measured['device']}{at}",
        ]
    return _colophon(papermill_line(job.finding, job.panel, job.model, job.revision), facts, title)


def made():
    """Versions and commit of this build."""
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions(*PACKAGES).items())
    commit = provenance.commit()
    at = f", at commit `{commit[:12]}`" if commit else ""
    return f"Built with Python {platform.python_version()}, {versions}{at}"


def _colophon(line, facts, title):
    """line: the command.  The key of the BibTeX entry is made of the title's first words."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return render("colophon", line=line, facts=[*facts, made()], title=title, key="_".join(words[:4]))
