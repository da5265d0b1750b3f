"""What the models are and what they read: the batch, the ceiling of a ratio, traits, corpora, training."""

import json
from functools import cache

import matplotlib.pyplot as plt
import pandas as pd

from lib import figures, measure
from lib.formatting import percent, tokens_text
from lib.report.markdown import numbered, render

NORMS = {"gpt_neox": "LayerNorm with biases", "olmo": "LayerNorm without weights", "olmoe": "RMSNorm, also on q and k"}


@cache
def _sequences(**settings):
    return measure.induction_batch(**settings)


def batch(report):
    """The panel's batch in a sentence."""
    tokens = _sequences(**report.panel.batch.model_dump()).tokens
    more = int(((tokens == tokens[:, -1:]).sum(dim=1) > 2).sum())
    return render("batch", title=report.panel.title, batch=report.panel.batch, more=more)


def ceiling(report):
    """How high a perfect induction head can read under the paper's baseline, derived and computed."""
    batches = {
        "this panel": report.panel.batch.model_dump(),
        "the paper": {},
        "shorter sequences": {"seq_len": 64, "vocab_low": 0, "vocab_high": 128},
    }
    rows = []
    for name, settings in batches.items():
        first_a, seq_len = _sequences(**settings).first_a.numpy(), settings.get("seq_len", 256)
        sample = measure.metrics.paper_baseline_positions(seq_len)
        rows.append(
            {
                "name": name,
                "seq_len": seq_len,
                "places": seq_len // 2 - 20,  # where the first A can stand
                "within": int(((sample > 20) & (sample <= seq_len // 2)).sum()),
                "hits": int(pd.Series(first_a + 1).isin(sample).sum()),
                "n": len(first_a),
                "ceiling": measure.metrics.paper_baseline_ceiling(seq_len, first_a),
            }
        )
    return render("ceiling", rows=rows)


def traits(report):
    """What each model is made of, read from its own config."""
    configs = {}
    for run in report.runs.values():
        folder = run.spec.folder(run.revision)
        if folder is not None and (folder / "config.json").is_file():
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            n_heads = config["num_attention_heads"]
            configs[run.spec.label] = config | {
                "architecture": config["architectures"][0],
                "norm": NORMS.get(config["model_type"]),
                "head_dim": config["hidden_size"] // n_heads,
                "rotary": percent(config.get("rope_parameters", {}).get("partial_rotary_factor", 1.0)),
                "n_heads": n_heads * config["num_hidden_layers"],
            }
    return render("traits", configs=configs)


def corpora(report):
    """The statistics of every domain, and which models read it."""
    readers, domains = {}, {}
    for model, recipe in report.recipes.items():
        corpus = recipe.corpus
        readers.setdefault(corpus.name, []).append(report.panel.models[model].label)
        total = sum(domain.share for domain in corpus.domains.values())
        for name, domain in corpus.domains.items():
            name = f"{corpus.name}: {name}"
            share = domain.share / total
            domains[name] = vars(domain) | {"name": name, "readers": readers[corpus.name], "share": share}
    return render("corpora", domains=domains.values())


def training(report):
    """The loss of every model over training, with its revisions marked, and the recipes."""
    logs = {
        name: pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["loss"], columns=["tokens", "loss"])
        for name, path in report.training_logs.items()
        if path.is_file()
    }
    recipes = [(report.panel.models[name], recipe) for name, recipe in report.recipes.items()]
    figure = numbered(_losses(report, logs), "M.1") if logs else ""
    return render("training", logs=logs, figure=figure, recipes=recipes)


def _losses(report, logs):
    """The figure of the losses; logs: {model: DataFrame of tokens and loss in nats}."""
    fig, ax = plt.subplots(figsize=(figures.style.WIDTH, 3.4), layout="constrained")
    words, limits = [], []
    for colour, (name, spec) in zip(figures.style.MODEL_COLOURS, report.panel.models.items()):
        if name not in logs:
            continue
        log = logs[name]
        figures.style.training_axis(ax, log["tokens"])
        limits.append(ax.get_xlim())
        smooth = log["loss"].rolling(10, min_periods=1).mean()
        ax.plot(log["tokens"], smooth, color=colour, label=spec.label, lw=1.5)
        for revision in spec.revisions:
            if revision.tokens >= log["tokens"].min():
                nearest = (log["tokens"] - revision.tokens).abs().idxmin()
                ax.plot(revision.tokens, smooth[nearest], "o", color=colour, ms=5)
        end = tokens_text(spec.revisions[-1].tokens)
        words.append(f"{spec.label} from {smooth.iloc[0]:.2f} to {smooth.iloc[-1]:.2f} nats at {end}")
    ax.set_xlim(min(low for low, _ in limits), max(high for _, high in limits))
    ax.set_ylabel("loss (nats a token)")
    ax.legend(fontsize="small", frameon=True)
    alt = "Lines of the training loss against tokens: " + "; ".join(words) + "."
    data = pd.concat([log.assign(model=name) for name, log in logs.items()])
    return figures.display.drawn(fig, "training_loss", alt, render("training_caption"), data)
