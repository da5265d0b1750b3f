"""Where the runs stand: those of a finding, the map of all, what failed, and how to execute one again."""

from lib.formatting import VERDICT_MARKS, tokens_text
from lib.report.jobs import notebooks, papermill_line
from lib.report.markdown import render, scrolling, table


def runs_of_finding(report, id):
    """Every run of a finding: a column a model, a row a place in training."""
    columns = []
    for name, spec in report.panel.models.items():
        columns.append([f"{r.name} {_cell(report, id, name, r.name)}" for r in spec.revisions])
    longest = max(map(len, columns))
    rows = zip(*(column + [""] * (longest - len(column)) for column in columns))
    return scrolling(table(rows, [spec.label for spec in report.panel.models.values()]), f"Runs of {id}")


def status(report):
    """How many runs are done, the map, and what failed."""
    states = [state.get("status", "missing") for state in report.status.values()]
    failed = [
        (_link(job, job), state["error"]) for job, state in report.status.items() if state.get("status") == "failed"
    ]
    maps = {spec.label: _map(report, name, spec) for name, spec in report.panel.models.items()}
    marks = VERDICT_MARKS
    return render("status", states=states, failed=failed, warnings=report.warnings, marks=marks, maps=maps)


def lines(report):
    """The papermill line of every finding."""
    name, spec = next(iter(report.panel.models.items()))
    text = "\n".join(papermill_line(id, report.panel_argument, name, spec.revisions[-1].name) for id in notebooks())
    return f"```bash\n{text}\n```"


def _map(report, model, spec):
    """The runs of a model as marks: a row a finding, a column a place in training."""
    header = ["", *[f"{tokens_text(r.tokens).removesuffix(' tokens')}<br>{r.name}" for r in spec.revisions]]
    return table([[id, *[_mark(report, id, model, r.name) for r in spec.revisions]] for id in notebooks()], header)


def _cell(report, id, model, revision):
    """A run's verdict, linked to its page, or what became of it."""
    job, word = _state(report, id, model, revision)
    return f"{_link(job, word)}{{.verdict .{word}}}" if word else "missing"


def _mark(report, id, model, revision):
    """A run as one mark in its verdict's colour, linked to its page; its word for who does not see the mark."""
    job, word = _state(report, id, model, revision)
    if not word:
        return "missing"
    mark = VERDICT_MARKS.get(word, "!")
    text = f'<span aria-hidden="true">{mark}</span><span class="unseen">{id} {word}</span>'
    return f"{_link(job, text)}{{.verdict .{word}}}"


def _state(report, id, model, revision):
    """(job, its verdict or "failed", None if it is missing)."""
    job = next(j for j in report.jobs if (j.finding, j.model, j.revision) == (id, model, revision))
    state = report.status[job]
    return job, "failed" if state.get("status") == "failed" else (state.get("record") or {}).get("verdict")


def _link(job, text):
    """Link from a page of book/ to the page of a run."""
    return f"[{text}](../runs/{job.finding}/{job.model}/{job.revision}.ipynb)"
