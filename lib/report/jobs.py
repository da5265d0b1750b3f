"""What is to be measured and executed: a job a finding, model and revision, and whether its notebook is up to date."""

from dataclasses import dataclass
from pathlib import Path

import nbformat

from lib import lessons, panels, provenance, tables
from lib.files import ROOT, nearest, results_dir
from lib.formatting import tokens_text

NOTEBOOKS = ROOT / "notebooks"
READING_CODE = (
    "formatting", "panels.panel", "tables.heads", "measure.metrics", "measure.bootstrap", "findings", "figures.display",
    "figures.style", "figures.drawing", "figures.of_run", "report.run_page", "report.execution",
)  # fmt: skip
FIGURE_WORDS = ROOT / "lib" / "figures" / "words.yml"
READING_PACKAGES = ("numpy", "pandas", "matplotlib", "seaborn", "papermill")
METADATA = "attention-circuits"
RECORD_MIME = "application/vnd.attention-circuits.record+json"


@dataclass(frozen=True)
class Job:
    """One papermill execution; finding is "F1", model and revision are names in the panel."""

    notebook: Path
    panel: str  # what load_panel takes: a name or a path
    panel_name: str
    finding: str
    model: str
    revision: str

    @property
    def output(self):
        """Where the executed notebook goes, whether it failed or not."""
        return results_dir(self.panel_name) / "runs" / self.finding / self.model / f"{self.revision}.ipynb"

    @property
    def parameters(self):
        """What papermill sets in the notebook."""
        return {"panel": self.panel, "model": self.model, "revision": self.revision}

    @property
    def title(self):
        """The page's title: copies of one template would share theirs."""
        spec = panels.load_panel(self.panel).model(self.model)
        tokens = tokens_text(spec.revision(self.revision).tokens)
        return f"{self.finding} · {spec.label} · {self.revision} ({tokens})"

    def __str__(self):
        return f"{self.finding} {self.model} {self.revision}"


def notebooks():
    """{finding: notebook file}: every notebooks/<finding>_<what>.ipynb."""
    found = {path.name.split("_")[0]: path for path in NOTEBOOKS.glob("F*_*.ipynb")}
    return {finding: found[finding] for finding in sorted(found, key=lambda finding: (len(finding), finding))}


def notebook_of(finding):
    """The notebook of a finding; raises PanelError with the nearest names."""
    known = notebooks()
    if finding not in known:
        raise panels.PanelError(f"no finding is called {finding!r}. {nearest(finding, known)}")
    return known[finding]


def plan(panel_argument, findings=None, models=None, revisions=None):
    """The jobs of a panel, narrowed to some findings, models and revisions.

    A revision named on its own must belong to at least one of the models.  Raises
    PanelError with the nearest names if something does not exist.
    """
    panel = panels.load_panel(panel_argument)
    chosen = {finding: notebook_of(finding) for finding in findings or notebooks()}
    models = models or list(panel.models)
    known = {r.name for model in models for r in panel.model(model).revisions}
    for revision in revisions or []:
        if revision not in known:
            raise panels.PanelError(
                f"no revision of {', '.join(models)} is called {revision!r}. {nearest(revision, known)}"
            )
    return [
        Job(notebook, str(panel_argument), panel.name, finding, model, revision.name)
        for finding, notebook in chosen.items()
        for model in models
        for revision in panel.model(model).revisions
        if not revisions or revision.name in revisions
    ]


def papermill_line(finding, panel, model, revision):
    """The command that executes one notebook from the project's root."""
    return f"papermill notebooks/{notebook_of(finding).name} out.ipynb -p panel {panel} -p model {model} -p revision {revision}"


def kinds(skip=()):
    """The kinds of tables that are measured; skip: "causal" leaves out causal tables."""
    return [kind for kind in tables.sweep.MEASUREMENTS if not ("causal" in skip and kind == "causal table")]


def check(panel_argument, models=None, revisions=None, skip=(), evict=False):
    """The preflight of a panel (lib.tables.preflight): prints its table; returns 2 if something cannot work, else 0."""
    panel, preflight = panels.load_panel(panel_argument), tables.preflight
    chosen = list(dict.fromkeys((job.model, job.revision) for job in plan(panel_argument, None, models, revisions)))
    missing = tables.sweep.pending(panel, list(dict.fromkeys(model for model, _ in chosen)), revisions, kinds(skip))
    to_measure = [(model, revision) for model, revision, _ in missing]
    found = preflight.check(panel, chosen, to_measure, evict, preflight.flops)
    print(f"{found.text()}\n\n{preflight.ASSUMPTIONS}")
    return 2 if found.problems else 0


def same_weights(panel_argument, models=None):
    """Sentences about revisions that turned out to hold the same weights."""
    panel, heads = panels.load_panel(panel_argument), tables.heads
    return [
        heads.same_weights_text(panel.model(model).label, names)
        for model in models or panel.models
        for names in heads.same_weights(panel, model)
    ]


def keys_of(jobs, with_lessons):
    """{job or lesson: key}, what is_done asks for; lessons come first, since they take longest."""
    panel = panels.load_panel(jobs[0].panel)
    models = list(dict.fromkeys(job.model for job in jobs))
    told = {m: [tables.heads.current(panel, m, r.name) for r in panel.model(m).revisions] for m in models}
    digests = {m: [None if t is None else [t["content"], t["sources"]] for t in of] for m, of in told.items()}
    taught = lessons.notebooks.plan(jobs[0].panel) if with_lessons else []
    keys = {lesson: lessons.notebooks.key_of(lesson, panel, digests) for lesson in taught}
    return keys | {job: key_of(job, panel, digests[job.model]) for job in jobs}


def key_of(job, panel, heads):
    """Hash of all a run depends on: notebook, code, versions, panel entry and the model's head tables (their hashes)."""
    return provenance.digest(
        {
            "notebook": provenance.file_digest(job.notebook),
            "code": provenance.code_digest(*READING_CODE),
            "words": provenance.file_digest(FIGURE_WORDS),
            "versions": provenance.versions(*READING_PACKAGES),
            "panel": [panel.name, panel.title, panel.thresholds.model_dump(), panel.batch.model_dump()],
            "model": panel.model(job.model).model_dump(),
            "revision": job.revision,
            "heads": heads,
        }
    )


def status_of(path):
    """What an executed notebook says of itself; empty if there is none or it cannot be read.

    key: hash of what it was made from.  status: "done" or "failed".  error: None or
    one line.  record: lib.report.run_page.record, None if the run did not get that far.
    """
    try:
        return nbformat.read(path, as_version=4).metadata.get(METADATA, {})
    except (OSError, ValueError, nbformat.reader.NotJSONError):
        return {}


def is_done(job, key):
    """Whether a run has succeeded with the same key; a failed one is tried again."""
    status = status_of(job.output)
    return status.get("key") == key and status.get("status") == "done"
