"""What is to be executed: a job a finding, model and revision, and whether its notebook is up to date."""

from dataclasses import dataclass
from pathlib import Path

import nbformat

from lib import provenance, tables
from lib.files import ROOT, nearest, results_dir
from lib.formatting import tokens_text
from lib.panels import PanelError, load_panel

NOTEBOOKS = ROOT / "notebooks"
READING_CODE = (
    "formatting", "panels.panel", "tables.heads", "measure.metrics", "measure.bootstrap", "findings", "figures.display",
    "figures.style", "figures.of_run", "report.run_page", "report.execution",
)  # fmt: skip
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
        spec = load_panel(self.panel).model(self.model)
        tokens = tokens_text(spec.revision(self.revision).tokens)
        return f"{self.finding} · {spec.label} · {self.revision} ({tokens})"

    def __str__(self):
        return f"{self.finding} {self.model} {self.revision}"


def notebooks():
    """{finding: notebook file}: every notebooks/<finding>_<what>.ipynb."""
    return {path.name.split("_")[0]: path for path in sorted(NOTEBOOKS.glob("F*_*.ipynb"))}


def notebook_of(finding):
    """The notebook of a finding; raises PanelError with the nearest names."""
    known = notebooks()
    if finding not in known:
        raise PanelError(f"no finding is called {finding!r}. {nearest(finding, known)}")
    return known[finding]


def plan(panel_argument, findings=None, models=None, revisions=None):
    """The jobs of a panel, narrowed to some findings, models and revisions.

    A revision named on its own must belong to at least one of the models.  Raises
    PanelError with the nearest names if something does not exist.
    """
    panel = load_panel(panel_argument)
    chosen = {finding: notebook_of(finding) for finding in findings or notebooks()}
    models = models or list(panel.models)
    known = {r.name for model in models for r in panel.model(model).revisions}
    for revision in revisions or []:
        if revision not in known:
            raise PanelError(f"no revision of {', '.join(models)} is called {revision!r}. {nearest(revision, known)}")
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


def key_of(job, panel, digests):
    """Hash of all a run depends on: notebook, code, versions, panel entry and the model's head tables."""
    return provenance.digest(
        {
            "notebook": provenance.file_digest(job.notebook),
            "code": provenance.code_digest(*READING_CODE),
            "versions": provenance.versions(*READING_PACKAGES),
            "panel": [panel.name, panel.title, panel.thresholds.model_dump(), panel.batch.model_dump()],
            "model": panel.model(job.model).model_dump(),
            "revision": job.revision,
            "heads": digests[job.model],
        }
    )


def head_digests(panel, models):
    """{model: hashes of its head tables}, None for those that are missing."""
    told = {m: [tables.heads.current(panel, m, r.name) for r in panel.model(m).revisions] for m in models}
    return {m: [None if t is None else [t["content"], t["sources"]] for t in of] for m, of in told.items()}


def status_of(path):
    """What an executed notebook says of itself; empty if there is none or it cannot be read.

    key: hash of what it was made from.  status: "done" or "failed".  error: None or
    one line.  record: lib.figures.display.record, None if the run did not get that far.
    """
    try:
        return nbformat.read(path, as_version=4).metadata.get(METADATA, {})
    except (OSError, ValueError, nbformat.reader.NotJSONError):
        return {}


def is_done(job, key):
    """Whether a run has succeeded with the same key; a failed one is tried again."""
    status = status_of(job.output)
    return status.get("key") == key and status.get("status") == "done"
