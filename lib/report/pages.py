"""The generated parts of the report's pages: measurements in, Markdown out.

The narrative in book/ includes them by name; lib.report.book writes them.
"""

import json
from dataclasses import dataclass, replace
from functools import cached_property

import matplotlib.pyplot as plt
import nbformat
import pandas as pd

from lib import formatting as w
from lib.figures import display, style
from lib.figures import of_ablation as causal_figures
from lib.figures import of_panel as panel_figures
from lib.figures import of_paper as published_figures
from lib.files import ROOT
from lib.findings import ablation_effects, crosschecks, judging
from lib.findings import counting as c
from lib.lessons import notebooks as lessons
from lib.measure import bootstrap, metrics
from lib.panels.panel import Panel
from lib.paper import judgements as evidence
from lib.paper import ledger, published
from lib.report import colophon, costs
from lib.report import ledger as ledger_page
from lib.report import run_page as story
from lib.report.jobs import notebooks, papermill_line, plan, status_of
from lib.report.markdown import badge, scrolling, table, turned
from lib.tables import causal, heads


@dataclass(frozen=True)
class Report:
    """All that the generated pages are written from; everything is read once."""

    panel: Panel
    panel_argument: str

    @cached_property
    def batch(self):
        """The panel's sequences (lib.measure.batch.InductionBatch)."""
        from lib.measure.batch import induction_batch  # imports torch, which most pages do not need

        return induction_batch(**self.panel.batch.model_dump())

    @cached_property
    def jobs(self):
        """Every run of the panel, in order."""
        return plan(self.panel_argument)

    @cached_property
    def runs(self):
        """{model: its last revision as lib.report.run_page.Run}."""
        return {
            name: story.open_run(self.panel_argument, name, spec.revisions[-1].name)
            for name, spec in self.panel.models.items()
        }

    @cached_property
    def final(self):
        """{finding: {model label: Finding at the last revision}}."""
        return {id: {run.spec.label: run.evaluate(id) for run in self.runs.values()} for id in notebooks()}

    @cached_property
    def published(self):
        """The published tables of the paper (lib.paper.published)."""
        return published.load()

    @cached_property
    def ledger(self):
        """Every statement of the ledger with its verdict (lib.paper.ledger.entries)."""
        return ledger.entries(self.published)

    @cached_property
    def causal(self):
        """{model: its causal tables over training (lib.tables.causal.trajectory), None if there are none}."""
        return {name: causal.trajectory(self.panel, name) for name in self.panel.models}

    @cached_property
    def status(self):
        """{job: lib.report.execution.status_of its notebook}, empty for a run that is missing."""
        return {job: status_of(job.output) for job in self.jobs}


# Small pieces of Markdown ----------------------------------------------------------


def raw(figure, number):
    """A drawn figure with a number such as "F2.1", which pages refer to as [Figure F2.1](#figure-F2.1)."""
    numbered = replace(figure, caption=f"Figure {number}. {figure.caption}")
    return f"(figure-{number})=\n\n```{{raw}} html\n{numbered._repr_html_()}\n```"


def run_link(job, text):
    """Link from a page of book/ to the page of a run."""
    return f"[{text}](../runs/{job.finding}/{job.model}/{job.revision}.ipynb)"


# Generated pages -------------------------------------------------------------------


def overview(report):
    """The figure of the first page."""
    return raw(published_figures.overview(report.published, list(report.runs.values())), "1")


def cards(report):
    """A card a finding: claim, verdicts, one number, link."""
    parts = []
    for id, rule in judging.FINDINGS.items():
        if id not in report.final:
            continue
        page = f"[{id} · {rule.title}]({id}.md)" if (ROOT / "book" / f"{id}.md").is_file() else f"{id} · {rule.title}"
        verdict, _ = judging.panel_verdict(report.final[id])
        lines = [f":::{{grid-item-card}} {page}", f"*The paper:* {rule.claim}", ""]
        if id in evidence.JUDGE:
            lines += [f"By its own figures: {_published_cell(report, id)}", ""]
        lines += [f"On our models: {badge(verdict)}", ""]
        if rule.in_a_number:
            number, words = rule.in_a_number({label: x.numbers for label, x in report.final[id].items()})
            lines += [f"[{number}]{{.number}} {words}.", ""]
        lines += [":::"]
        parts.append("\n".join(lines))
    parts.append(_ledger_card(report))
    return "::::{grid} 1 1 2 2\n:gutter: 3\n:class-container: findings\n\n" + "\n\n".join(parts) + "\n::::"


def _ledger_card(report):
    """The last card: how the paper's statements fare against its own files."""
    entries = report.ledger["verdict"].value_counts()
    return (
        ":::{grid-item-card} [A ledger of claims](ledger.md)\nThe paper, statement by statement, against its own published files: of "
        f"{entries.sum()} statements\n\n[{entries.get('agrees', 0)}]{{.number}} agree, {entries.get('disagrees', 0)} do not, and "
        f"{entries.get('cannot be checked', 0)} cannot be checked with what is published.\n:::"
    )


def panel(report):
    """A note for pages that tell of the mini models, if the report is of other ones; else nothing."""
    labels = [spec.label for spec in report.panel.models.values()]
    if _recipes(report):
        return ""
    return (
        f":::{{note}}\nThis report is of the panel *{report.panel.title}*: {w.join(labels)}. Where the text speaks of mini or small "
        "models that are trained on the spot, it describes the default panel; tables, figures and verdicts are of the models "
        "named here.\n:::"
    )


def glance(report):
    """The verdicts on the five findings in a table."""
    labels = [run.spec.label for run in report.runs.values()]
    rows = []
    for id, rule in judging.FINDINGS.items():
        if id not in report.final:
            continue
        verdict, _ = judging.panel_verdict(report.final[id])
        cells = [badge(report.final[id][label].verdict) for label in labels]
        page = f"[{id} · {rule.title}]({id}.md)" if (ROOT / "book" / f"{id}.md").is_file() else f"{id} · {rule.title}"
        rows.append([page, _published_cell(report, id), badge(verdict), *cells])
    header = ["finding", "paper", "this panel", *labels]
    return (
        scrolling(table(rows, header), "Verdicts of the findings, by model", "dense")
        + f"\n\nThe column *paper* puts the paper's published figures through the same rules: {w.join(published.MODELS.values())}, "
        "in this order (✓ holds, ✗ fails). *This panel* is the verdict over all the models measured here."
    )


def _published_cell(report, id):
    """The marks of the verdicts on the paper's models, in the order of published.MODELS."""
    if id not in evidence.JUDGE:
        return "–"
    judged = evidence.published_judgements(id, report.published)
    return "\u00a0".join(style.VERDICT_MARKS[verdict] for verdict, _ in judged.values())


def batch(report):
    """The panel's batch in a sentence."""
    b, tokens = report.panel.batch, report.batch.tokens
    more = int(((tokens == tokens[:, -1:]).sum(dim=1) > 2).sum())
    again = (
        "Since other occurrences are redrawn only once, as in the paper, and the vocabulary is small, "
        f"{more} of these sequences hold {{math}}`A` a third time."
        if more
        else "No sequence holds {math}`A` a third time."
    )
    return (
        f"The panel *{report.panel.title}* uses {{math}}`N` = {b.n_sequences:,} sequences of {{math}}`T` = {b.seq_len} "
        f"tokens with ids from {b.vocab_low} up to {b.vocab_high - 1}, drawn with seed {b.seed}. (The paper: 2,000 "
        f"sequences of 256 tokens, ids 100 to 9,999, seed 42.) {again}"
    )


def ceiling(report):
    """How high a perfect induction head can read under the paper's baseline, derived and computed."""
    from lib.measure.batch import induction_batch  # imports torch, which the other pages do not need

    b = report.panel.batch
    here = "this panel"
    rows = []
    for name, seq_len, batch_ in (
        (here, b.seq_len, report.batch),
        ("the paper", 256, induction_batch()),
        ("shorter sequences", 64, induction_batch(seq_len=64, vocab_low=0, vocab_high=128)),
    ):
        first_a, sample = batch_.first_a.numpy(), metrics.paper_baseline_positions(seq_len)
        within = int(((sample > 20) & (sample <= seq_len // 2)).sum())
        hits = int(pd.Series(first_a + 1).isin(sample).sum())
        exact = metrics.paper_baseline_ceiling(seq_len, first_a)
        rows.append(
            [
                name, seq_len, f"{within} of {seq_len // 2 - 20}", f"{50 * (seq_len // 2 - 20) / within:.0f}x",
                f"{hits:,} of {len(first_a):,}", f"{exact:.0f}x",
            ]
        )  # fmt: skip
    header = [
        "batch", "T", "places of B in the sample", "expected ceiling", "sequences with B in the sample", "ceiling",
    ]  # fmt: skip
    return (
        "How high is that ceiling? Take a head that puts all of its attention on {math}`a+1`. Its mean attention to the "
        "induction target is 1. The baseline is the mean over sequences of the mean attention to the 50 sampled positions: "
        "{math}`1/50` in a sequence whose target is in the sample {math}`S`, and 0 in any other. With {math}`h` such "
        "sequences among {math}`N`,\n\n"
        "```{math}\n"
        "s_{\\max} = \\frac{1}{\\frac1N \\sum_i \\frac{1}{50}\\,[a_i+1 \\in S]} = \\frac{50\\,N}{h}\n"
        "```\n\n"
        "Since {math}`a` is uniform on {math}`T/2-20` places, {math}`h/N` is close to the share of those places that are in "
        "the sample, wherever the sample happens to fall:\n\n"
        + scrolling(table(rows, header), "Ceilings of the induction selectivity under the paper's baseline")
        + "\n\nFirst-token, previous-token and self attention have no such ceiling, since these positions are never "
        "sampled: they can read up to 100,000,000x. So one threshold means different things for different classes, and for "
        "sequences of different length: at {math}`T = 64` a head needs nearly all of its attention on the target to pass 50x."
    )


def traits(report):
    """What each model is made of, read from its own config."""
    shown = {
        "hidden_size": "residual stream",
        "num_hidden_layers": "layers",
        "num_attention_heads": "heads a layer",
        "vocab_size": "vocabulary",
        "use_parallel_residual": "parallel residual",
        "clip_qkv": "clip_qkv",
        "num_experts": "experts",
        "num_experts_per_tok": "experts a token",
        "norm_topk_prob": "gates renormalised",
        "hidden_act": "activation",
        "attention_bias": "attention biases",
        "attention_dropout": "attention dropout (in training)",
        "tie_word_embeddings": "tied embeddings",
    }
    norms = {
        "gpt_neox": "LayerNorm with biases",
        "olmo": "LayerNorm without weights",
        "olmoe": "RMSNorm, also on q and k",
    }
    columns = {}
    for run in report.runs.values():
        folder = run.spec.folder(run.revision)
        if folder is None or not (folder / "config.json").is_file():
            continue
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        heads_ = config["num_attention_heads"]
        share = config.get("rope_parameters", {}).get("partial_rotary_factor", 1.0)
        column = {"architecture": config["architectures"][0], "norm": norms.get(config["model_type"], "–")}
        column |= {text: _plain(config.get(key)) for key, text in shown.items()}
        column["dimensions a head"] = config["hidden_size"] // heads_
        column["rotary part of a head"] = w.percent(share)
        column["heads in all"] = heads_ * config["num_hidden_layers"]
        columns[run.spec.label] = column
    if not columns:
        return "The weights of this panel are not on this machine, so nothing is said of them here."
    frame = pd.DataFrame(columns).fillna("–")
    rows = [[name, *values] for name, values in zip(frame.index, frame.to_numpy())]
    return scrolling(table(rows, ["trait", *frame.columns]), "Traits of the models")


def _plain(value):
    """A config value as a reader would write it; 1 and 0 are numbers, not yes and no."""
    return {"True": "yes", "False": "no", "None": "–"}.get(str(value), value)


def _recipes(report):
    """{model: Recipe} of the models that were trained here."""
    from lib.panels.recipes import RECIPES

    return {name: RECIPES[name] for name in report.panel.models if name in RECIPES}


def corpora(report):
    """The statistics of every domain, and which model reads it."""
    readers = {}
    for name, recipe in _recipes(report).items():
        readers.setdefault(recipe.corpus.name, (recipe.corpus, []))[1].append(report.panel.models[name].label)
    if not readers:
        return "The models of this panel were not trained here."
    rows = []
    for corpus, labels in readers.values():
        total = sum(d.share for d in corpus.domains.values())
        for name, d in corpus.domains.items():
            near = f"{w.percent(d.near_share)}, mean {d.near_mean:g}" if d.near_share else "none"
            rows.append(
                [
                    f"{corpus.name}: {name}",
                    w.join(labels),
                    w.percent(d.share / total),
                    w.percent(d.vocabulary[1] - d.vocabulary[0]),
                    f"{d.copy_start:g}",
                    f"{d.span[0]} to {d.span[1]}",
                    near,
                    d.least_distance,
                    *[f"{value:g}" for value in (d.title, d.bigram, d.skip, d.zipf)],
                ]
            )
    header = [
        "corpus: domain", "read by", "share", "part of the vocabulary", "copies start", "copied tokens", "near copies",
        "least distance", "title", "bigram", "skip-bigram", "Zipf exponent",
    ]  # fmt: skip
    return scrolling(turned(rows, header), "Statistics of the corpora") + (
        "\n\n*Copies start* is the probability, at a position outside any copy, that a span of earlier tokens of the same "
        "sequence is repeated from here; its distance is geometric for near copies and else uniform over all that came "
        "before. The next four say where a token outside a copy comes from: *title*, *bigram* and *skip-bigram* are the "
        "probabilities that it repeats the sequence's first token, is fixed by the token before it, or by the one two "
        "before. Else it is drawn afresh, uniformly or by a Zipf law."
    )


def training(report):
    """The loss of every model over training, with its revisions marked."""
    fig, ax = plt.subplots(figsize=(style.WIDTH, 3.4), layout="constrained")
    rows, words, limits = [], [], []
    for colour, (name, run) in zip(style.MODEL_COLOURS, report.runs.items()):
        path = ROOT / run.spec.path / "training.json" if run.spec.path else None
        if path is None or not path.is_file():
            continue
        log = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["loss"], columns=["tokens", "loss"])
        style.training_axis(ax, log["tokens"])
        limits.append(ax.get_xlim())
        smooth = log["loss"].rolling(10, min_periods=1).mean()
        ax.plot(log["tokens"], smooth, color=colour, label=run.spec.label, lw=1.5)
        for revision in run.spec.revisions:
            if revision.tokens >= log["tokens"].min():
                nearest = (log["tokens"] - revision.tokens).abs().idxmin()
                ax.plot(revision.tokens, smooth[nearest], "o", color=colour, ms=5)
        words.append(
            f"{run.spec.label} from {smooth.iloc[0]:.2f} to {smooth.iloc[-1]:.2f} nats at {w.tokens_text(run.spec.revisions[-1].tokens)}"
        )
        rows.append(log.assign(model=name))
    if not rows:
        plt.close(fig)
        return "The models of this panel were not trained here."
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    ax.set_ylabel("loss (nats a token)")
    ax.legend(fontsize="small", frameon=True)
    alt = "Lines of the training loss against tokens: " + "; ".join(words) + "."
    caption = (
        "Training loss, a running mean of ten readings; points mark the saved revisions. Contexts grow during training "
        "where a recipe says so, and the loss steps up with them, since a longer context makes the same copies harder to find."
    )
    recipes = [
        [
            report.panel.models[name].label,
            w.tokens_text(report.panel.models[name].revisions[-1].tokens),
            ", ".join(
                f"{length} from {w.tokens_text(start)}" if start else str(length)
                for start, length in r.contexts.items()
            ),
            f"{r.learning_rate:g}",
            f"{r.beta2:g}",
            f"{r.weight_decay:g}",
            f"{r.batch_tokens:,}",
        ]
        for name, r in _recipes(report).items()
    ]
    header = [
        "model",
        "trained on",
        "context length",
        "peak learning rate",
        "AdamW beta2",
        "weight decay",
        "tokens a step",
    ]
    return (
        raw(display.drawn(fig, "training_loss", alt, caption, pd.concat(rows)), "M.1")
        + "\n\n"
        + scrolling(table(recipes, header), "Training recipes")
    )


def formed(report):
    """The causal check of every model at its last revision, and whether it meets what was asked of its training."""
    checks, rows, tables = [], [], []
    for name, run in report.runs.items():
        table_ = causal.read(report.panel, name, run.revision)
        if table_ is None:
            continue
        tables.append(table_)
        by_condition = table_.groupby("condition")
        top1, loss = by_condition["top1"], by_condition["loss"].mean()
        mean, low, high = top1.mean(), top1.min(), top1.max()
        share = lambda key: w.percent(mean[key]) if key in mean else "–"  # noqa: E731
        rows.append(
            [
                run.spec.label,
                w.join(table_.loc[table_["condition"] == "circuit", "heads"].str.split(" ").explode()) or "none",
                share("baseline"), share("circuit"),
                f"{share('random')} ({w.percent(low['random'])} to {w.percent(high['random'])})" if "random" in mean else "–",
                share("layers"), f"{loss['baseline']:.2f}", f"{loss['circuit']:.2f}" if "circuit" in loss else "–",
            ]
        )  # fmt: skip
        checks.append(
            [
                run.spec.label,
                *[
                    ("yes: " if ok else "**no**: ") + text
                    for ok, text in ablation_effects.formed(run.heads, table_, report.panel.thresholds)
                ],
            ]
        )
    if not checks:
        return "No causal check of this panel has been measured."
    sources = tables[0].attrs["provenance"]["sources"]
    draws, n = sources["draws"], sources["n_sequences"]
    effects_header = [
        "", "circuit", "top-1", "without the circuit", f"without matched random heads (mean and range of {draws} draws)",
        "without any head of the circuit's layers", "loss", "loss without the circuit",
    ]  # fmt: skip
    return (
        "The induction circuit (all heads past 50x at the last revision, paper's baseline) is set to zero, and so are "
        f"{draws} random sets of heads of the same size, from the same layers as far as these have other heads "
        f"and else from anywhere. Measured on {n} sequences of the batch (over the whole of training: [](causal.md)):\n\n"
        + scrolling(turned(rows, effects_header), "Causal check")
        + "\n\nThis was asked of their training, and the recipes were chosen for it and for speed, not for the "
        "verdicts on the findings:\n\n"
        + scrolling(turned(checks, ["", *ablation_effects.CRITERIA]), "What was asked of the training")
        + "\n\n*Far less* means at most half of what the circuit costs. Where a circuit fills its layer, no other head of "
        "that layer is left to draw, and the random sets reach the previous-token heads that the circuit builds on."
    )


def matters(report):
    """When each model's circuit starts to matter: a sentence, a figure and the numbers."""
    parts, numbered = [], []
    for name, run in report.runs.items():
        tables = report.causal[name]
        parts.append(f"## {run.spec.label}")
        if tables is None:
            parts.append("No causal table of this model has been measured.")
            continue
        figure = causal_figures.over_training(tables, run.spec.label)
        parts += [ablation_effects.when_it_matters(tables), raw(figure, f"C.{len(numbered) + 1}")]
        numbered.append(name)
        last = tables[tables["step"] == tables["step"].max()]
        parts.append(
            f"At {last['revision'].iloc[0]}:\n\n"
            + scrolling(_effects(last), f"Causal table of {run.spec.label} at the end")
        )
        every = tables[
            tables["condition"].isin(["baseline", "final_circuit", "final_random", "circuit", "previous_token"])
        ]
        parts.append(
            ":::{dropdown} Every checkpoint\n"
            + scrolling(_losses(every), f"Loss and top-1 of {run.spec.label} at every checkpoint", "dense")
            + "\n:::"
        )
    return "\n\n".join(parts)


def _effects(tables):
    """All measures of every condition at one checkpoint; random draws as mean and range."""
    rows = []
    for condition, text in causal.CONDITIONS.items():
        of = tables[tables["condition"] == condition]
        if of.empty:
            continue
        say = {"top1": w.percent, "top5": w.percent, "loss": "{:.2f}".format, "target_logit": "{:.2f}".format}
        cells = [
            form(of[k].iloc[0])
            if len(of) == 1
            else f"{form(of[k].mean())} ({form(of[k].min())} to {form(of[k].max())})"
            for k, form in say.items()
        ]
        heads_ = of["heads"].iloc[0] if len(of) == 1 and of["n_heads"].iloc[0] <= 8 else ""
        rows.append([text, heads_.replace(" ", ", ") or "–", *cells])
    return table(rows, ["condition", "heads", "top-1", "top-5", "loss (nats)", "logit of B"])


def _losses(tables):
    """Loss and top-1 of some conditions, a row a checkpoint."""
    conditions = [k for k in causal.CONDITIONS if (tables["condition"] == k).any()]
    rows = []
    for revision, of in tables.groupby("revision", sort=False):
        cells = []
        for condition in conditions:
            at = of[of["condition"] == condition]
            cells.append("–" if at.empty else f"{at['loss'].mean():.2f} ({w.percent(at['top1'].mean())})")
        rows.append([revision, *cells])
    return table(rows, ["loss (top-1)", *[causal.CONDITIONS[k] for k in conditions]])


def checks(report):
    """Prefix matching and sink mass against the screen: rank agreement, and the heads on which they differ."""
    parts = [raw(panel_figures.checks(list(report.runs.values())), "X.1")]
    titles = {"induction": "prefix matching", "first_token": "sink mass"}
    for run in report.runs.values():
        found = crosschecks.agreement(run.heads, report.panel.thresholds)
        rows = []
        for revision, of in found.groupby("revision", sort=False):
            of = of.set_index("check")
            row = [revision]
            for check in titles:
                at = of.loc[check]
                rank = "–" if pd.isna(at["spearman"]) else f"{at['spearman']:+.2f}"
                row += [
                    rank,
                    len(at["both"]),
                    ", ".join(at["screen_only"]) or "none",
                    ", ".join(at["check_only"]) or "none",
                ]
            rows.append(row)
        header = ["revision"]
        for title in titles.values():
            header += [f"{title}: rank agreement", "heads past both", "screen only", f"{title} only"]
        parts.append(
            f"## {run.spec.label}\n\n" + scrolling(table(rows, header), f"Cross-checks of {run.spec.label}", "dense")
        )
    return "\n\n".join(parts)


def claim(report, id):
    """The paper's claim and the panel's verdict."""
    rule = judging.FINDINGS[id]
    verdict, reason = judging.panel_verdict(report.final[id])
    sentences = "\n".join(f"- *{v.capitalize()}* if {text}." for v, text in rule.words.items())
    return (
        f"> **The paper's claim.** {rule.claim}\n\n**On the panel *{report.panel.title}*:** {badge(verdict)}. {reason}\n\n"
        f":::{{dropdown}} The rule of the verdict\n{sentences}\n\nOver several models, the finding holds if it holds for every one, and fails if it fails for any.\n:::"
        + "\n\n" * bool(panel(report))
        + panel(report)
    )


def side_by_side(report, id):
    """The four columns of evidence, a row a model: claim, published figures, our measurement, how sure."""
    rule, rows = judging.FINDINGS[id], []
    judged = evidence.published_judgements(id, report.published) if id in evidence.JUDGE else {}
    for run in report.runs.values():
        finding, counterpart = report.final[id][run.spec.label], run.spec.counterpart
        verdict, gist = judged.get(counterpart, (None, None))
        rows.append(
            [
                f"{published.MODELS.get(counterpart, '–')} and {run.spec.label}",
                rule.claims.get(counterpart, "no claim about such a model"),
                f"{badge(verdict)} {gist}" if verdict else "–",
                f"{badge(finding.verdict)} {finding.gist}",
                judging.how_sure(finding),
            ]
        )
    header = ["", "The paper claims", "Its published figures, recomputed", "Measured here", "How sure that is"]
    text = scrolling(table(rows, header), f"{id}: the evidence side by side", "evidence")
    if id in evidence.JUDGE:
        counts = report.ledger.loc[report.ledger["finding"] == id, "verdict"].value_counts()
        said = w.join(
            f"{counts[verdict]} {words}"
            for verdict, words in (
                ("agrees", "agree"),
                ("disagrees", "disagree"),
                ("cannot be checked", "cannot be checked"),
            )
            if verdict in counts
        )
        text += (
            f"\n\nBoth columns of verdicts follow the same rule. Of the {counts.sum()} statements that the paper makes about "
            f"{id}, held against its own files, {said}: see the [ledger](ledger.md)."
        )
    return text


def redrawn(report, id):
    """The paper's 1B panel, drawn from its published figures."""
    return raw(published_figures.PUBLISHED_FIGURES[id](report.published), f"{id}.1")


def panel_page(report, id):
    """Figure and reasons that compare the models at their last revisions."""
    parts = []
    if id in panel_figures.PANEL_FIGURES:
        parts.append(raw(panel_figures.PANEL_FIGURES[id](list(report.runs.values())), f"{id}.2"))
    for label, x in report.final[id].items():
        parts.append(f"**{label}** {badge(x.verdict)} {x.reason} {x.statement}")
    return "\n\n".join(parts)


def assumptions(report, id):
    """What the verdicts rest on: every assumption, every threshold, resamples, and ratios without attention."""
    by_model, thresholds = report.final[id], report.panel.thresholds
    rows = [
        [
            f"**{words}** ({judging.explained(id, words, thresholds)})",
            *[f"{badge(x.survival[words][0])} {x.survival[words][1]}" for x in by_model.values()],
        ]
        for words in judging.assumptions(id, thresholds)
    ]
    parts = [
        scrolling(table(rows, ["assumption", *by_model]), f"{id}: the verdict under other assumptions"),
        raw(panel_figures.sensitivities(list(report.runs.values()), by_model), "F5.4" if id == "F5" else f"{id}.3"),
        _resampled(by_model),
    ]
    for cls, swept in (("first_token", "classify"), ("induction", "induction_circuit")):
        if swept in judging.FINDINGS[id].sweeps:
            parts.append(_thin(report, cls, getattr(thresholds, swept)))
    return "\n\n".join(parts)


def _resampled(by_model):
    """How often resampled sequences give the same verdict."""
    shares = [f"{label} {w.percent(x.support)}" for label, x in by_model.items() if x.support is not None]
    return (
        f"**Other sequences.** How often {bootstrap.REPLICATES} resamples of the batch give the same verdict: "
        f"{w.join(shares)}. (They say how much the choice of sequences matters. They say nothing of another "
        "training run of the same model: each was trained once.)"
    )


def _thin(report, cls, threshold):
    """Heads that pass a ratio at some revision with hardly any attention behind it."""
    found = []
    for run in report.runs.values():
        mask = c.thin(run.trajectory, cls, threshold, run.counting)
        for step, of in enumerate(mask):
            found += [f"{run.spec.label} {name} at {run.trajectory.names[step]}" for name in run.trajectory.labels(of)]
    what = {"first_token": "on the first token", "induction": "on the induction target"}[cls]
    floor = w.percent(report.panel.thresholds.mass_floor)
    if not found:
        return f"**Ratios without attention.** No head of any model passes {w.times(threshold)} {what} with under {floor} of its attention there, at any revision."
    return f"**Ratios without attention.** These pass {w.times(threshold)} {what} with under {floor} of their attention there: {w.join(found)}."


def null(report):
    """F5's controls: does PR tell circuit heads from others before selectivity does?"""
    runs = list(report.runs.values())
    parts = [raw(panel_figures.separations(runs), "F5.3")]
    for run in runs:
        parts.append(f"**{run.spec.label}.** {run.controls().text}")
        parts.append(run.controls_table()._repr_html_())
    led = published.null_leads(report.published)
    led = led[led["rule"] == "start"]
    of = led.groupby("model").apply(
        lambda g: f"{published.MODELS[g.name]} {int(g['led'].sum())} of {int(g['crossings'].sum())}"
    )
    parts.append(
        "**The paper's models.** PR is published for 16 heads only, all chosen as selective. Two a model are in no induction "
        "circuit; at or before the crossings of the circuit heads they were elevated, too (against the listed heads at the "
        f"start), in these pairs of a control and a crossing: {w.join(of)}."
    )
    return "\n\n".join(parts)


def run_state(report, id, model, revision):
    """(job, its verdict or "failed", None if it is missing)."""
    job = next(j for j in report.jobs if (j.finding, j.model, j.revision) == (id, model, revision))
    state = report.status[job]
    return job, "failed" if state.get("status") == "failed" else (state.get("record") or {}).get("verdict")


def run_cell(report, id, model, revision, prefix=""):
    """One run as a table cell: its verdict, linked to its page, or what became of it."""
    job, word = run_state(report, id, model, revision)
    return f"{prefix}{run_link(job, word)}{{.verdict .{word}}}" if word else f"{prefix}missing"


def runs_of_finding(report, id):
    """Every run of a finding: a column a model, a row a place in training."""
    models = report.panel.models
    rows = [
        [
            run_cell(report, id, name, spec.revisions[i].name, f"{spec.revisions[i].name} ")
            if i < len(spec.revisions)
            else ""
            for name, spec in models.items()
        ]
        for i in range(max(len(spec.revisions) for spec in models.values()))
    ]
    return scrolling(table(rows, [spec.label for spec in models.values()]), f"Runs of {id}")


def status_map(report):
    """Every run of the panel as a map: for each model a row a finding, a column a place in training."""
    parts = []
    for name, spec in report.panel.models.items():
        rows = [[id, *[map_cell(report, id, name, r.name) for r in spec.revisions]] for id in notebooks()]
        header = ["", *[f"{w.tokens_text(r.tokens).removesuffix(' tokens')}<br>{r.name}" for r in spec.revisions]]
        parts.append(f"## {spec.label}\n\n" + scrolling(table(rows, header), f"Runs of {spec.label}", "dense map"))
    return "\n\n".join(parts)


def map_cell(report, id, model, revision):
    """A run as one mark in its verdict's colour, linked to its page; its word for who does not see the mark."""
    job, word = run_state(report, id, model, revision)
    if not word:
        return "missing"
    mark = style.VERDICT_MARKS.get(word, "!")
    return run_link(job, f'<span aria-hidden="true">{mark}</span><span class="unseen">{id} {word}</span>') + (
        f"{{.verdict .{word}}}"
    )


MARKS = (
    "Marks: " + ", ".join(f"{mark} {verdict}" for verdict, mark in style.VERDICT_MARKS.items()) + ", ! failed to run."
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
    for name, spec in report.panel.models.items():
        parts += [heads.same_weights_text(spec.label, names) for names in heads.same_weights(report.panel, name)]
    return "\n\n".join([*parts, MARKS, status_map(report)])


def lines(report):
    """The papermill line of every finding."""
    name, spec = next(iter(report.panel.models.items()))
    text = "\n".join(papermill_line(id, report.panel_argument, name, spec.revisions[-1].name) for id in notebooks())
    return f"```bash\n{text}\n```"


def made(report):
    """Versions and commit."""
    return colophon.made()


def contents(present):
    """The table of the lessons as Markdown; present: those that have been executed."""
    if not present:
        return "The lessons have not been executed for this panel."
    rows = []
    for lesson in present:
        title, minutes, about = lessons.facts(nbformat.read(lesson.notebook, as_version=4))
        rows.append((f"[{title}](../notebooks/lessons/{lesson.notebook.name})", f"{minutes}&nbsp;min", about))
    return table(rows, ("lesson", "time", "what you do"))


PAGES = {
    "overview": overview, "cards": cards, "panel": panel, "glance": glance, "batch": batch, "ceiling": ceiling, "traits": traits,
    "corpora": corpora,
    "training": training, "formed": formed, "matters": matters, "checks": checks, "status": status, "lines": lines,
    **{f"costs_{name}": lambda report, page=page: page() for name, page in costs.PAGES.items()},
    "made": made, "controls": null, "ledger": lambda report: ledger_page.page(report.ledger),
}  # fmt: skip
FINDING_PAGES = {
    "claim": claim, "evidence": side_by_side, "published": redrawn, "panel": panel_page, "assumptions": assumptions,
    "runs": runs_of_finding,
}  # fmt: skip
