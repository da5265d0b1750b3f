"""All that the generated pages are written from, read once a build."""

from dataclasses import dataclass
from functools import cached_property

from lib import paper, tables
from lib.panels import RECIPES, Panel
from lib.report.jobs import plan, status_of
from lib.report.run_page import open_run


@dataclass(frozen=True)
class Report:
    """What a panel's report tells of; the attributes are read when they are first asked for."""

    panel: Panel
    panel_argument: str

    @cached_property
    def batch(self):
        """The panel's sequences (lib.measure.batch.InductionBatch)."""
        return tables.storage.sequences(self.panel)  # imports torch, which most pages do not need

    @cached_property
    def jobs(self):
        """Every run of the panel, in order."""
        return plan(self.panel_argument)

    @cached_property
    def runs(self):
        """{model: its last revision as lib.report.run_page.Run}."""
        return {
            name: open_run(self.panel_argument, name, spec.revisions[-1].name)
            for name, spec in self.panel.models.items()
        }

    @cached_property
    def final(self):
        """{finding: {model label: Finding at the last revision}}, of the findings that have a notebook."""
        ids = dict.fromkeys(job.finding for job in self.jobs)
        return {id: {run.spec.label: run.evaluate(id) for run in self.runs.values()} for id in ids}

    @cached_property
    def published(self):
        """The published tables of the paper (lib.paper.published)."""
        return paper.published.load()

    @cached_property
    def ledger(self):
        """Every statement of the ledger with its verdict (lib.paper.ledger.entries)."""
        return paper.ledger.entries(self.published)

    @cached_property
    def causal(self):
        """{model: its causal tables over training (lib.tables.causal.trajectory), None if there are none}."""
        return {name: tables.causal.trajectory(self.panel, name) for name in self.panel.models}

    @cached_property
    def status(self):
        """{job: lib.report.jobs.status_of its notebook}, empty for a run that is missing."""
        return {job: status_of(job.output) for job in self.jobs}

    def last_causal_table(self, model):
        """The causal table of a model's last revision, None if there is none."""
        return tables.causal.read(self.panel, model, self.runs[model].revision)

    @cached_property
    def measured(self):
        """{model: {revision: provenance of its head table}}, of the tables that are there and not stale."""
        return {name: tables.heads.measured(self.panel, name) for name in self.panel.models}

    @cached_property
    def recipes(self):
        """{model: Recipe} of the models that were trained here."""
        return {name: RECIPES[name] for name in self.panel.models if name in RECIPES}

    @cached_property
    def published_controls(self):
        """Leads of the paper's listed heads outside the final circuits (lib.paper.published.null_leads)."""
        return paper.published.null_leads(self.published)

    @cached_property
    def same_weights(self):
        """Warnings of revisions that turned out to hold the same weights."""
        found = []
        for name, spec in self.panel.models.items():
            for names in tables.heads.same_weights(self.panel, name):
                found.append(tables.heads.same_weights_text(spec.label, names))
        return found

    def published_verdicts(self, id):
        """What a finding's rule says of the paper's own models: {model: (verdict, gist)}; empty if it is not the paper's."""
        if id not in paper.judgements.JUDGE:
            return {}
        return paper.judgements.published_judgements(id, self.published)
