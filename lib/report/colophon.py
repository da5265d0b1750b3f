"""The end of every page: the line that makes it again, what it was made from, how to cite it.

Added when the book is assembled and not by the notebooks, whose bytes hold no seconds and no commit.
"""

import platform

from lib import provenance
from lib.formatting import join
from lib.report import run_page as story
from lib.report.jobs import papermill_line

PACKAGES = (*story.PACKAGES, "seaborn", "jupyter-book")
BOOK = "When do attention circuits form? An executable reproduction"


def facts_of(report):
    """What all pages of the narrative were made from: sentences about every checkpoint of a panel."""
    panel, weights, seconds = report.panel, [], 0.0
    for name, spec in panel.models.items():
        measured = list(report.measured[name].values())
        seconds += sum(m["seconds"] for m in measured)
        if measured:
            digest = provenance.digest([m["sources"]["weights"] for m in measured])
            weights.append(f"{spec.label} `{digest[:12]}`")
    return [
        f"Panel: {panel.title}, {sum(len(m.revisions) for m in panel.models.values())} checkpoints, batch seed {panel.batch.seed}",
        f"Weights (SHA-256 over all revisions): {join(weights)}",
        f"Measured in {seconds:.0f} seconds of all checkpoints together",
        made(),
    ]


def of_page(title, facts, panel_argument):
    """For a page of the narrative; facts: facts_of its panel."""
    return _colophon(f"python -m lib.book --panel {panel_argument}", facts, title)


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
    line = papermill_line(job.finding, job.panel, job.model, job.revision)
    return _colophon(line, [*facts, made()], title)


def made():
    """Versions and commit of this build."""
    versions = ", ".join(f"{k} {v}" for k, v in provenance.versions(*PACKAGES).items())
    commit = provenance.commit()
    return f"Built with Python {platform.python_version()}, {versions}" + (
        f", at commit `{commit[:12]}`" if commit else ""
    )


def cite(title):
    """A page as a BibTeX entry; its key is made of the title's first words."""
    words = "".join(ch if ch.isascii() and ch.isalnum() else " " for ch in title.lower()).split()
    return "\n".join(
        [
            f"@incollection{{circuits_{'_'.join(words[:4])},",
            f"  title     = {{{title}}},",
            "  author    = {{The executable paper's contributors}},",
            f"  booktitle = {{{BOOK}}},",
            "  year      = {2026},",
            "  note      = {Reproduces arXiv:2606.02378}",
            "}",
        ]
    )


def _colophon(line, facts, title):
    return (
        ":::{dropdown} Reproduce this page · cite this\n:class-container: colophon\n\n"
        "From the project's root, with its environment active:\n\n"
        f"```bash\n{line}\n```\n\n"
        + "\n".join(f"- {fact}." for fact in facts)
        + f"\n\n```bibtex\n{cite(title)}\n```\n:::"
    )
