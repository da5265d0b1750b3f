"""What the notebooks call: one run is a model at a revision, seen in the light of its training."""

import platform
from dataclasses import asdict, dataclass
from functools import cached_property

import pandas as pd

from lib import figures, findings, panels, provenance, tables
from lib.formatting import percent, tokens_text
from lib.report.jobs import RECORD_MIME, papermill_line

PACKAGES = ("torch", "transformers", "transformer-lens", "numpy", "pandas", "papermill")


@dataclass(frozen=True)
class Run:
    """One model at one revision.

    source: what the panel was opened by, its name or its file.
    heads: one row a head and revision over the whole training (lib.tables.heads.trajectory).
    """

    source: str
    panel: "panels.Panel"
    model: str
    revision: str
    heads: pd.DataFrame

    @cached_property
    def trajectory(self):
        """The same heads as arrays, with their bootstrap replicates (lib.findings.counting.Trajectory)."""
        return findings.counting.Trajectory.of(self.heads, tables.heads.replicates(self.panel, self.model))

    @cached_property
    def counting(self):
        """How the paper counts, with the panel's thresholds."""
        return findings.counting.Counting(self.panel.thresholds)

    @property
    def baseline_ceiling(self):
        """The induction selectivity that a perfect head reads under the paper's baseline."""
        return float(self.heads["induction_ceiling"].iloc[0])

    @property
    def spec(self):
        """The model's entry in the panel."""
        return self.panel.model(self.model)

    @property
    def title(self):
        """ "OLMo-mini at step 100 (4.1M tokens)"."""
        tokens = self.spec.revision(self.revision).tokens
        return f"{self.spec.label} at {self.revision} ({tokens_text(tokens)})"

    def introduction(self):
        """Where in training this checkpoint stands."""
        revisions = self.spec.revisions
        place = self.spec.upto(self.revision)
        now = self.heads[self.heads["revision"] == self.revision]
        share = place[-1].tokens / revisions[-1].tokens
        return figures.display.Prose(
            f"This page is about **{self.title}**, revision {len(place)} of {len(revisions)} in the panel "
            f"*{self.panel.title}*: {percent(share)} of the training that the panel covers. The model has "
            f"{now['layer'].nunique()} layers of {now['head'].nunique()} heads; every number is a mean over "
            f"{now['n_sequences'].iloc[0]:,} sequences of {self.panel.batch.seq_len} tokens."
        )

    def evaluate(self, id):
        """The finding of that name at this revision (lib.findings.judging.Finding)."""
        judge, thresholds = findings.judging.evaluate, self.panel.thresholds
        return judge(id, self.trajectory, self.revision, thresholds, self.spec.counterpart)

    def claim(self, id):
        """What the paper says."""
        return figures.display.Prose(f"> **The paper's claim {id}.** {findings.judging.FINDINGS[id].claim}")

    def statement(self, finding):
        """What this checkpoint shows, in a few sentences."""
        return figures.display.Prose(finding.statement)

    def table(self, finding):
        """The numbers behind the statement."""
        return figures.display.Table(finding.table, f"{finding.id}: the numbers of {self.title}")

    @cached_property
    def comparison(self):
        """Circuit heads against controls at this revision (lib.findings.controls.compare)."""
        return findings.controls.compare(self.trajectory, self.trajectory.step(self.revision), self.counting)

    @cached_property
    def separation(self):
        """How well PR and selectivity tell them apart up to this revision (lib.findings.controls.separation)."""
        return findings.controls.separation(self.trajectory, self.trajectory.step(self.revision), self.counting)

    def controls(self):
        """F5's null: whether PR tells circuit heads from others before selectivity does, in words."""
        return figures.display.Prose(findings.controls.spoken(self.separation, self.comparison))

    def controls_table(self):
        """The numbers behind it: the lead of circuit heads against that of heads that never join."""
        table = findings.controls.table(self.comparison)
        return figures.display.Table(table, f"F5: circuit heads against controls, {self.title}")

    def verdict(self, finding):
        """The verdict with its reason; carries the record that the book collects."""
        return Verdict(finding, record(finding, self.panel.name, self.model, self.revision))

    def provenance(self, id):
        """What this page was made from, and the line that makes it again."""
        measured = tables.heads.current(self.panel, self.model, self.revision)
        weights, commit = measured["sources"]["weights"], (measured["hub_commit"] or "")[:10]
        if self.spec.path:
            weights = f"`{weights[:16]}` (SHA-256 of config and tensors)"
        else:
            weights = f"`{weights}` at commit `{commit}`, `{measured['weights_sha256'][:16]}` (SHA-256 of the files)"
        versions = ", ".join(f"{name} {version}" for name, version in provenance.versions(*PACKAGES).items())
        rows = {
            "Execute it again": f"`{papermill_line(id, self.source, self.model, self.revision)}`",
            "Weights": weights,
            "Batch": f"`{measured['tokens_sha256'][:16]}` (SHA-256 of the tokens), seed {self.panel.batch.seed}",
            "Measured in": f"{measured['dtype']} on {measured['device']}",
            "Versions": f"Python {platform.python_version()}, {versions}",
        }
        return figures.display.Prose("\n".join(f"- {name}: {value}" for name, value in rows.items()))


def open_run(panel, model, revision):
    """Open a run by name; head tables that are missing or stale are measured now.

    panel: name of a file in panels/ or path to one.  Raises PanelError with the
    nearest names if there is no such panel, model or revision, and CheckpointError
    (lib.panels.checkpoints) if a checkpoint has to be measured and is not there.
    """
    loaded = panels.load_panel(panel)
    loaded.model(model).revision(revision)
    return Run(str(panel), loaded, model, revision, tables.heads.trajectory(loaded, model))


@dataclass(frozen=True)
class Verdict:
    """A finding's verdict in words: its reason, what it survives, the rule; carries the run's record for the book."""

    finding: object
    record: dict

    def _repr_mimebundle_(self, include=None, exclude=None):
        finding = self.finding
        rule = findings.judging.FINDINGS[finding.id].words
        words = " ".join(f"*{verdict.capitalize()}* if {text}." for verdict, text in rule.items())
        text = (
            f"**{finding.verdict.capitalize()}.** {finding.reason}\n\n"
            f"What it rests on: {findings.judging.survival_text(finding)}\n\nThe rule: {words}"
        )
        return {"text/markdown": text, RECORD_MIME: self.record}


def record(finding, panel, model, revision):
    """The plain values that the book reads from an executed notebook."""
    values = asdict(finding)
    del values["table"], values["sweeps"]
    return {"panel": panel, "model": model, "revision": revision, **values}
