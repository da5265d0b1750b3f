"""All that the pages of a report are written from, read once: panel, runs, verdicts, tables, published figures."""

from dataclasses import dataclass
from functools import cached_property

from lib import panels, paper, tables
from lib.files import ROOT
from lib.report.jobs import notebooks, plan, same_weights, status_of
from lib.report.run_page import open_run


@dataclass(frozen=True)
class Report:
    """The report of a panel; panel_argument: name of a file in panels/, or a path.

    Raises PanelError if there is no such panel, and lib.files.UserError where published tables cannot be used.
    """

    panel_argument: str

    @cached_property
    def panel(self):
        """The panel (lib.panels.panel.Panel)."""
        return panels.load_panel(self.panel_argument)

    @cached_property
    def recipes(self):
        """{model: lib.panels.training.Recipe} of the models that were trained here."""
        recipes = panels.recipes.RECIPES
        return {name: recipes[name] for name in self.panel.models if name in recipes}

    @cached_property
    def training_logs(self):
        """{model: file of its training's losses} of local models, whether it is there or not."""
        return {name: ROOT / spec.path / "training.json" for name, spec in self.panel.models.items() if spec.path}

    @cached_property
    def jobs(self):
        """Every run of the panel, in order (lib.report.jobs.Job)."""
        return plan(self.panel_argument)

    @cached_property
    def status(self):
        """{job: lib.report.jobs.status_of its notebook}, empty for a run that is missing."""
        return {job: status_of(job.output) for job in self.jobs}

    @cached_property
    def runs(self):
        """{model: its last revision as lib.report.run_page.Run}."""
        return {
            name: open_run(self.panel_argument, name, spec.revisions[-1].name)
            for name, spec in self.panel.models.items()
        }

    @cached_property
    def final(self):
        """{finding: {model label: Finding at the last revision}}, for every finding that has a notebook."""
        return {id: {run.spec.label: run.evaluate(id) for run in self.runs.values()} for id in notebooks()}

    # The paper -------------------------------------------------------------------------

    @cached_property
    def published(self):
        """The published tables of the paper (lib.paper.published)."""
        return paper.published.load()

    @cached_property
    def published_models(self):
        """{the paper's model: its label}."""
        return paper.published.MODELS

    @cached_property
    def judged(self):
        """{finding: {the paper's model: (verdict, gist)}}, empty where the published figures do not bear on a finding."""
        judged = paper.judgements
        return {id: judged.published_judgements(id, self.published) if id in judged.JUDGE else {} for id in self.final}

    @cached_property
    def ledger(self):
        """Every statement of the ledger with its verdict (lib.paper.ledger.entries)."""
        return paper.ledger.entries(self.published)

    # Tables ----------------------------------------------------------------------------

    @cached_property
    def measured(self):
        """{model: {revision: provenance of its head table}} of those that are not stale (lib.tables.heads.measured)."""
        return {name: tables.heads.measured(self.panel, name) for name in self.panel.models}

    @cached_property
    def warnings(self):
        """Sentences about revisions that hold the same weights."""
        return same_weights(self.panel_argument)

    @cached_property
    def causal(self):
        """{model: its causal tables over training (lib.tables.causal.trajectory), None if there are none}."""
        return {name: tables.causal.trajectory(self.panel, name) for name in self.panel.models}

    @cached_property
    def conditions(self):
        """{condition of a causal table: what is zeroed, in words}."""
        return tables.causal.CONDITIONS

    @cached_property
    def attention(self):
        """{(model, revision): attention rows, [sequence, layer * head, position] float32}, None if not measured."""
        found = {
            (name, revision.name): tables.patterns.read(self.panel, name, revision.name)
            for name, spec in self.panel.models.items()
            for revision in spec.revisions
        }
        return {at: None if table is None else tables.patterns.rows(table) for at, table in found.items()}

    @cached_property
    def shown(self):
        """The sequences of these attention rows (lib.measure.batch.InductionBatch)."""
        return tables.patterns.batch(self.panel)

    def sources(self):
        """What the report is made from beside the project's own files: (files as [name, path], facts about tables)."""
        models = self.panel.models
        files = [["panel", panels.panel.panel_path(self.panel_argument)]]
        files += [[name, path] for name, path in self.training_logs.items()]
        facts = [
            [name, revision.name, tables.heads.sources(self.panel, name, revision.name)]
            + [kind.current(self.panel, name, revision.name) for kind in tables.sweep.MEASUREMENTS.values()]
            for name, spec in models.items()
            for revision in spec.revisions
        ]
        return files, facts
