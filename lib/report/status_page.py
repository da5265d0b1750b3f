"""The map of all runs, and the lines that make them again."""

from lib.formatting import VERDICT_MARKS, tokens_text
from lib.report.jobs import notebooks, papermill_line
from lib.report.markdown import scrolling, table

MARKS = "Marks: " + ", ".join(f"{mark} {verdict}" for verdict, mark in VERDICT_MARKS.items()) + ", ! failed to run."


def run_link(job, text):
    """Link from a page of book/ to the page of a run."""
    return f"[{text}](../runs/{job.finding}/{job.model}/{job.revision}.ipynb)"


def run_state(report, id, model, revision):
    """(job, its verdict or "failed", None if it is missing)."""
    job = next(j for j in report.jobs if (j.finding, j.model, j.revision) == (id, model, revision))
    state = report.status[job]
    return job, "failed" if state.get("status") == "failed" else (state.get("record") or {}).get("verdict")


def run_cell(report, id, model, revision, prefix=""):
    """One run as a table cell: its verdict, linked to its page, or what became of it."""
    job, word = run_state(report, id, model, revision)
    return f"{prefix}{run_link(job, word)}{{.verdict .{word}}}" if word else f"{prefix}missing"


def status_map(report):
    """Every run of the panel as a map: for each model a row a finding, a column a place in training."""
    parts = []
    for name, spec in report.panel.models.items():
        rows = [[id, *[map_cell(report, id, name, r.name) for r in spec.revisions]] for id in notebooks()]
        header = ["", *[f"{tokens_text(r.tokens).removesuffix(' tokens')}<br>{r.name}" for r in spec.revisions]]
        parts.append(f"## {spec.label}\n\n" + scrolling(table(rows, header), f"Runs of {spec.label}", "dense map"))
    return "\n\n".join(parts)


def map_cell(report, id, model, revision):
    """A run as one mark in its verdict's colour, linked to its page; its word for who does not see the mark."""
    job, word = run_state(report, id, model, revision)
    if not word:
        return "missing"
    mark = VERDICT_MARKS.get(word, "!")
    return run_link(job, f'<span aria-hidden="true">{mark}</span><span class="unseen">{id} {word}</span>') + (
        f"{{.verdict .{word}}}"
    )


def status(report):
    """How many runs are done, the map, and what failed."""
    states = [state.get("status", "missing") for state in report.status.values()]
    counts = (
        f"**{states.count('done')} of {len(states)} runs done**, {states.count('failed')} failed, "
        f"{states.count('missing')} missing."
    )
    failed = [
        f"- {run_link(job, str(job))}: `{state['error']}`"
        for job, state in report.status.items()
        if state.get("status") == "failed"
    ]
    parts = [counts, *(["What failed:\n\n" + "\n".join(failed)] if failed else [])]
    return "\n\n".join([*parts, *report.same_weights, MARKS, status_map(report)])


def lines(report):
    """The papermill line of every finding."""
    name, spec = next(iter(report.panel.models.items()))
    text = "\n".join(papermill_line(id, report.panel_argument, name, spec.revisions[-1].name) for id in notebooks())
    return f"```bash\n{text}\n```"
