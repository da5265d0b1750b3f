"""Pages of methods and of the models: the batch and its ceiling, architectures, corpora, training, and what circuits are worth."""

import json

import matplotlib.pyplot as plt
import pandas as pd

from lib import figures, measure
from lib import formatting as w
from lib.figures import drawn
from lib.files import ROOT
from lib.findings import CRITERIA, formed_as_asked
from lib.report.markdown import numbered, render, scrolling, table, turned


def batch(report):
    """The panel's batch in a sentence."""
    b, tokens = report.panel.batch, report.batch.tokens
    more = int(((tokens == tokens[:, -1:]).sum(dim=1) > 2).sum())
    return render("batch", title=report.panel.title, b=b, more=more)


def ceiling(report):
    """How high a perfect induction head can read under the paper's baseline, derived and computed."""
    from lib.measure import induction_batch  # imports torch, which the other pages do not need

    b = report.panel.batch
    here = "this panel"
    rows = []
    for name, seq_len, batch_ in (
        (here, b.seq_len, report.batch),
        ("the paper", 256, induction_batch()),
        ("shorter sequences", 64, induction_batch(seq_len=64, vocab_low=0, vocab_high=128)),
    ):
        first_a, sample = batch_.first_a.numpy(), measure.metrics.paper_baseline_positions(seq_len)
        within = int(((sample > 20) & (sample <= seq_len // 2)).sum())
        hits = int(pd.Series(first_a + 1).isin(sample).sum())
        exact = measure.metrics.paper_baseline_ceiling(seq_len, first_a)
        rows.append(
            [
                name, seq_len, f"{within} of {seq_len // 2 - 20}", f"{50 * (seq_len // 2 - 20) / within:.0f}x",
                f"{hits:,} of {len(first_a):,}", f"{exact:.0f}x",
            ]
        )  # fmt: skip
    header = [
        "batch", "T", "places of B in the sample", "expected ceiling", "sequences with B in the sample", "ceiling",
    ]  # fmt: skip
    return render(
        "ceiling",
        table=scrolling(table(rows, header), "Ceilings of the induction selectivity under the paper's baseline"),
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


def corpora(report):
    """The statistics of every domain, and which model reads it."""
    readers = {}
    for name, recipe in report.recipes.items():
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
    return render("corpora", table=scrolling(turned(rows, header), "Statistics of the corpora"))


def training(report):
    """The loss of every model over training, with its revisions marked."""
    fig, ax = plt.subplots(figsize=(figures.style.WIDTH, 3.4), layout="constrained")
    rows, words, limits = [], [], []
    for colour, (name, run) in zip(figures.style.MODEL_COLOURS, report.runs.items()):
        path = ROOT / run.spec.path / "training.json" if run.spec.path else None
        if path is None or not path.is_file():
            continue
        log = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["loss"], columns=["tokens", "loss"])
        figures.style.training_axis(ax, log["tokens"])
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
    lines = [
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
        for name, r in report.recipes.items()
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
        numbered(drawn(fig, "training_loss", alt, caption, pd.concat(rows)), "M.1")
        + "\n\n"
        + scrolling(table(lines, header), "Training recipes")
    )


def formed(report):
    """The causal check of every model at its last revision, and whether it meets what was asked of its training."""
    checks, rows, tables = [], [], []
    for name, run in report.runs.items():
        table_ = report.last_causal_table(name)
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
                    for ok, text in formed_as_asked(run.heads, table_, report.panel.thresholds)
                ],
            ]
        )
    if not checks:
        return "No causal check of this panel has been measured."
    sources = tables[0].attrs["provenance"]["sources"]
    draws = sources["draws"]
    effects_header = [
        "", "circuit", "top-1", "without the circuit", f"without matched random heads (mean and range of {draws} draws)",
        "without any head of the circuit's layers", "loss", "loss without the circuit",
    ]  # fmt: skip
    return render(
        "formed",
        draws=draws,
        n=sources["n_sequences"],
        effects=scrolling(turned(rows, effects_header), "Causal check"),
        checks=scrolling(turned(checks, ["", *CRITERIA]), "What was asked of the training"),
    )
