"""Assemble the report from the narrative, the head tables and the executed notebooks, and build it.

    python -m lib.book [--panel mini]

The site folder (_build/site) is laid out like the project: book/*.md as they are,
book/_generated/*.md written here from the numbers, runs/ with the executed
notebooks, and a table of contents with all of them.  Only files whose content
changed are written, so that Sphinx rebuilds no more than it must.
"""

import argparse
import json
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import yaml

from lib import causal, display, metrics, provenance, story
from lib import findings as f
from lib import words as w
from lib.figures import panel as panel_figures
from lib.figures import style
from lib.panel import Panel, PanelError, load_panel
from lib.paths import ROOT
from lib.run import notebooks, plan, status_of

RUN_PACKAGES = (*story.PACKAGES, "seaborn", "jupyter-book")


@dataclass(frozen=True)
class Report:
    """All that the generated pages are written from; everything is read once."""

    panel: Panel
    panel_argument: str

    @cached_property
    def jobs(self):
        """Every run of the panel, in order."""
        return plan(self.panel_argument)

    @cached_property
    def runs(self):
        """{model: its last revision as lib.story.Run}."""
        return {
            name: story.open_run(self.panel_argument, name, spec.revisions[-1].name)
            for name, spec in self.panel.models.items()
        }

    @cached_property
    def final(self):
        """{finding: {model label: Finding at the last revision}}."""
        return {id: {run.spec.label: run.evaluate(id) for run in self.runs.values()} for id in notebooks()}

    @cached_property
    def status(self):
        """{job: lib.run.status_of its notebook}, empty for a run that is missing."""
        return {job: status_of(job.output) for job in self.jobs}


# Small pieces of Markdown ----------------------------------------------------------


def table(rows, header):
    """A Markdown table from rows of cells."""
    lines = ["| " + " | ".join(str(c) for c in row) + " |" for row in [header, *rows]]
    lines.insert(1, "|" + "---|" * len(header))
    return "\n".join(lines)


def turned(rows, header):
    """The same table with rows and columns exchanged: few long rows become a narrow table."""
    first, *rest = zip(header, *rows)
    return table(rest, first)


def scrolling(markdown, label, kind=""):
    """A table in a region that scrolls by itself on a narrow screen and can take the focus."""
    classes = f"table-scroll {kind}".strip()
    return f'<div class="{classes}" tabindex="0" role="region" aria-label="{label}">\n\n{markdown}\n\n</div>'


def raw(figure):
    """A drawn figure, as the notebooks show it."""
    return f"```{{raw}} html\n{figure._repr_html_()}\n```"


def badge(verdict):
    """A verdict as a coloured word."""
    return f"[{verdict}]{{.verdict .{verdict}}}"


def run_link(job, text):
    """Link from a page of book/ to the page of a run."""
    return f"[{text}](../runs/{job.finding}/{job.model}/{job.revision}.ipynb)"


# Generated pages -------------------------------------------------------------------


def glance(report):
    """The five findings in a table, and the figure that shows most of them."""
    labels = [run.spec.label for run in report.runs.values()]
    rows = []
    for id, rule in f.FINDINGS.items():
        if id not in report.final:
            continue
        verdict, _ = f.panel_verdict(report.final[id])
        cells = [badge(report.final[id][label].verdict) for label in labels]
        page = f"[{id} · {rule.title}]({id}.md)" if (ROOT / "book" / f"{id}.md").is_file() else f"{id} · {rule.title}"
        rows.append([page, badge(verdict), *cells])
    header = ["finding", "over all models", *labels]
    return (
        raw(panel_figures.order_of_emergence(list(report.runs.values())))
        + "\n\n"
        + scrolling(table(rows, header), "Verdicts of the findings, by model")
    )


def found(report):
    """The claim, the verdict and each model's reason, a paragraph and a list a finding."""
    parts = []
    for id, by_model in report.final.items():
        rule = f.FINDINGS[id]
        reasons = "\n".join(f"- {label} {badge(x.verdict)} {x.reason}" for label, x in by_model.items())
        parts.append(f"**{id} · {rule.title}.** *The paper:* {rule.claim}\n\n{reasons}")
    return "\n\n".join(parts)


def batch(report):
    """The panel's batch in a sentence."""
    b = report.panel.batch
    return (
        f"The panel *{report.panel.title}* uses {{math}}`N` = {b.n_sequences:,} sequences of {{math}}`T` = {b.seq_len} "
        f"tokens with ids from {b.vocab_low} up to {b.vocab_high - 1}, drawn with seed {b.seed}. (The paper: 2,000 "
        "sequences of 256 tokens, ids 100 to 9,999, seed 42.)"
    )


def ceiling(report):
    """How high a perfect induction head can read under the paper's baseline."""
    from lib.batch import induction_batch  # imports torch, which the other pages do not need

    b = induction_batch(**report.panel.batch.model_dump())
    seq_len, first_a = report.panel.batch.seq_len, b.first_a.numpy()
    here = metrics.paper_baseline_ceiling(seq_len, first_a)
    paper = metrics.paper_baseline_ceiling(256, induction_batch().first_a.numpy())
    return (
        f"In this panel's batch a perfect induction head reads **{here:.0f}x** under the paper's baseline, in the "
        f"paper's own batch {paper:.0f}x; previous-token and first-token heads can read up to 100,000,000x."
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
    from lib.mini import RECIPES

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
        raw(display.drawn(fig, "training_loss", alt, caption, pd.concat(rows)))
        + "\n\n"
        + scrolling(table(recipes, header), "Training recipes")
    )


def formed(report):
    """The causal check of every model, and whether it meets what was asked of its training."""
    checks, effects, n = [], [], None
    for name, run in report.runs.items():
        check = causal.read(report.panel, name)
        if check is None:
            continue
        n = check["n_sequences"]  # the same for all models of a panel
        circuit = [w.name_of(*h) for h in check["circuit"]]
        base, ablated, random = check["baseline"], check["ablated"], check["random"]
        top1 = lambda c: "–" if c is None else w.percent(c["top1"])  # noqa: E731
        shares = sorted(r["top1"] for r in random)
        effects.append(
            [
                run.spec.label, w.join(circuit), w.percent(base["top1"]), top1(ablated),
                f"{w.percent(sum(shares) / len(shares))} ({w.percent(shares[0])} to {w.percent(shares[-1])})" if shares else "–",
                top1(check["layers"]), f"{base['loss']:.2f}", "–" if ablated is None else f"{ablated['loss']:.2f}",
            ]
        )  # fmt: skip
        checks.append(
            [
                run.spec.label,
                *[
                    ("yes: " if ok else "**no**: ") + text
                    for ok, text in causal.formed(run.heads, check, report.panel.thresholds)
                ],
            ]
        )
    if not checks:
        return "No causal check of this panel has been measured."
    effects_header = [
        "", "circuit", "top-1", "without the circuit", f"without matched random heads (mean and range of {causal.DRAWS} draws)",
        "without any head of the circuit's layers", "loss", "loss without the circuit",
    ]  # fmt: skip
    return (
        "The induction circuit (all heads past 50x at the last revision, paper's baseline) is set to zero, and so are "
        f"{causal.DRAWS} random sets of heads of the same size, from the same layers as far as these have other heads "
        f"and else from anywhere. Measured on {n} sequences of the batch:\n\n"
        + scrolling(turned(effects, effects_header), "Causal check")
        + "\n\nThis was asked of their training, and the recipes were chosen for it and for speed, not for the "
        "verdicts on the findings:\n\n"
        + scrolling(turned(checks, ["", *causal.CRITERIA]), "What was asked of the training")
        + "\n\n*Far less* means at most half of what the circuit costs. Where a circuit fills its layer, no other head of "
        "that layer is left to draw, and the random sets reach the previous-token heads that the circuit builds on."
    )


def claim(report, id):
    """The paper's claim and the panel's verdict."""
    rule = f.FINDINGS[id]
    verdict, reason = f.panel_verdict(report.final[id])
    sentences = "\n".join(f"- *{v.capitalize()}* if {text}." for v, text in rule.words.items())
    return (
        f"> **The paper's claim.** {rule.claim}\n\n**On the panel *{report.panel.title}*:** {badge(verdict)}. {reason}\n\n"
        f":::{{dropdown}} The rule of the verdict\n{sentences}\n\nOver several models, the finding holds if it holds for every one, and fails if it fails for any.\n:::"
    )


def panel_page(report, id):
    """Figure, verdicts and reasons that compare the models at their last revisions."""
    by_model = report.final[id]
    rows = [[label, badge(x.verdict), badge(x.clean[0])] for label, x in by_model.items()]
    parts = []
    if id in panel_figures.PANEL_FIGURES:
        parts.append(raw(panel_figures.PANEL_FIGURES[id](list(report.runs.values()))))
    header = ["model", "verdict (paper's baseline)", "verdict (clean baseline)"]
    parts.append(scrolling(table(rows, header), f"{id}: verdicts at the last revision"))
    for label, x in by_model.items():
        clean = "" if x.clean[0] == x.verdict else f" Under the clean baseline: {x.clean[1]}"
        parts.append(f"**{label}** {badge(x.verdict)} {x.reason}{clean} {x.statement}")
    return "\n\n".join(parts)


def run_cell(report, id, model, revision, prefix=""):
    """One run as a table cell: its verdict, linked to its page, or what became of it."""
    job = next(j for j in report.jobs if (j.finding, j.model, j.revision) == (id, model, revision))
    state = report.status[job]
    word = "failed" if state.get("status") == "failed" else (state.get("record") or {}).get("verdict")
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


def status_matrix(report):
    """Every run of the panel: for each model a row a revision, a column a finding."""
    parts = []
    for name, spec in report.panel.models.items():
        rows = [
            [
                r.name,
                w.tokens_text(r.tokens).removesuffix(" tokens"),
                *[run_cell(report, id, name, r.name) for id in notebooks()],
            ]
            for r in spec.revisions
        ]
        header = ["revision", "tokens", *notebooks()]
        parts.append(f"## {spec.label}\n\n" + scrolling(table(rows, header), f"Runs of {spec.label}", "dense"))
    return "\n\n".join(parts)


def status(report):
    """How many runs are done, the matrix, and what failed."""
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
    return "\n\n".join([*parts, status_matrix(report)])


def lines(report):
    """The papermill line of every finding."""
    name, spec = next(iter(report.panel.models.items()))
    text = "\n".join(
        story.papermill_line(id, report.panel_argument, name, spec.revisions[-1].name) for id in notebooks()
    )
    return f"```bash\n{text}\n```"


def made(report):
    """Versions and commit."""
    versions = provenance.versions(*RUN_PACKAGES)
    return (
        f"With Python {platform.python_version()}, "
        + ", ".join(f"{k} {v}" for k, v in versions.items())
        + (f", at commit `{provenance.commit()[:12]}`." if provenance.commit() else ".")
    )


PAGES = {
    "glance": glance, "found": found, "batch": batch, "ceiling": ceiling, "traits": traits, "corpora": corpora,
    "training": training, "formed": formed, "status": status, "lines": lines, "made": made,
}  # fmt: skip


# Assembling and building -----------------------------------------------------------


def assemble(panel_argument, site):
    """Lay out the site folder for Jupyter Book; returns the Report."""
    report = Report(load_panel(panel_argument), panel_argument)
    keep = set()

    def put(relative, content):
        path = site / relative
        keep.add(path)
        content = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    for path in [ROOT / "_config.yml", *sorted((ROOT / "book").rglob("*"))]:
        if path.is_file() and "_generated" not in path.parts:
            put(path.relative_to(ROOT), path.read_bytes())
    for name, page in PAGES.items():
        put(f"book/_generated/{name}.md", page(report) + "\n")
    for id in notebooks():
        for name, page in (("claim", claim), ("panel", panel_page), ("runs", runs_of_finding)):
            put(f"book/_generated/{id}_{name}.md", page(report, id) + "\n")
    present = [job for job in report.jobs if report.status[job]]
    for job in present:
        put(f"runs/{job.finding}/{job.model}/{job.revision}.ipynb", job.output.read_bytes())
    put("_toc.yml", yaml.safe_dump(toc(present), sort_keys=False, allow_unicode=True))
    for path in [p for p in site.rglob("*") if p.is_file() and p not in keep and "_build" not in p.parts]:
        path.unlink()
    return report


def toc(jobs):
    """The narrative's table of contents with every run under its finding's page."""
    content = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    chapters = {c["file"]: c for part in content["parts"] for c in part["chapters"]}
    for job in jobs:
        chapter = chapters.get(f"book/{job.finding}", chapters["book/status"])
        chapter.setdefault("sections", []).append({"file": f"runs/{job.finding}/{job.model}/{job.revision}"})
    return content


def build(panel_argument, folder):
    """Assemble in folder/_build/site and build into folder/_build/html.

    Returns (exit code of Jupyter Book, path of the first page).  Warnings are errors.
    """
    site = folder / "_build" / "site"
    assemble(panel_argument, site)
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "-q"]
    result = subprocess.run([program, "build", site, "--path-output", folder, *options], cwd=ROOT)
    return result.returncode, folder / "_build" / "html" / "index.html"


def main(arguments=None):
    """Command line; returns Jupyter Book's exit code, 2 for a wrong panel."""
    parser = argparse.ArgumentParser(prog="python -m lib.book", description="Build the report of a panel.")
    parser.add_argument("--panel", default="mini", help="name of a file in panels/, or a path (default: mini)")
    options = parser.parse_args(arguments)
    try:
        code, page = build(options.panel, ROOT)
    except PanelError as error:
        print(error, file=sys.stderr)
        return 2
    if code == 0:
        print(f"The report is in {page.relative_to(ROOT)}")
    return code


if __name__ == "__main__":
    sys.exit(main())
