"""The figure of the causal check: what a model can do over training, with heads zeroed and without."""

from lib.figures.display import drawn, say, texts, words
from lib.figures.drawing import plots, share_axis
from lib.figures.style import CLASS_COLOURS, MUTED, PALETTE, training_axis

LABELS = texts()["conditions"]  # {condition: what is zeroed}, in the order of the legend
LINES = {  # condition: how it is drawn, in this order; what a later line covers stays visible as a wider one
    "baseline": {"color": "0.15", "lw": 1.8, "marker": "o", "ms": 4},
    "final_layers": {"color": PALETTE[4], "lw": 3.5, "alpha": 0.6},
    "final_circuit": {"color": CLASS_COLOURS["induction"], "lw": 1.8, "marker": "o", "ms": 4},
    "circuit": {"color": PALETTE[9], "ls": "", "marker": "o", "ms": 8, "mfc": "none", "mew": 1.5},
    "previous_token": {"color": CLASS_COLOURS["previous_token"], "lw": 1.5, "ls": "--", "marker": "s", "ms": 4},
}


def over_training(tables, label, start):
    """Top-1 and loss of one model over training, with nothing and with each set of heads zeroed.

    tables: lib.tables.causal.trajectory.  label: the model's name for readers.  start: the step from which the
    circuit matters (lib.findings.starts_to_matter), None if never.  Returns a lib.figures.display.Figure whose data
    are the tables themselves, with all four measures.
    """
    tokens = tables.groupby("step")["tokens"].first()
    fig, ((top,), (bottom,)) = plots(2, 1, 5.6, sharex=True)
    for ax, measure, ylabel, xlabel in ((top, "top1", "top-1", ""), (bottom, "loss", "loss (nats)", "training tokens")):
        x = dict(zip(tokens.index, training_axis(ax, tokens, xlabel)))
        random = tables[tables["condition"] == "final_random"].groupby("step")[measure]
        if len(random):
            at = [x[step] for step in random.mean().index]
            ax.fill_between(at, random.min(), random.max(), color=MUTED, alpha=0.25, lw=0)
            ax.plot(at, random.mean(), color=MUTED, lw=1.8, label=LABELS["final_random"])
        for condition, style in LINES.items():
            rows = tables[tables["condition"] == condition].sort_values("step")
            if len(rows):
                ax.plot(rows["step"].map(x), rows[measure], label=LABELS[condition], **style)
        if start is not None:
            ax.axvline(x[start], color=CLASS_COLOURS["induction"], ls=":", lw=1.5)
        ax.set_ylabel(ylabel)
    if start is not None:
        top.annotate(
            "the circuit starts to matter", (x[start], 0.97), (-5, 0), xycoords=top.get_xaxis_transform(),
            textcoords="offset points", ha="right", va="top", color=CLASS_COLOURS["induction"], fontsize="small",
        )  # fmt: skip
    share_axis(top, ylim=(-0.03, max(0.2, 1.12 * tables["top1"].max())))
    handles = dict(zip(*top.get_legend_handles_labels()[::-1]))
    shown = [text for text in LABELS.values() if text in handles]
    fig.legend([handles[t] for t in shown], shown, loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return drawn(fig, f"causal_{label.lower()}", *_words(tables, label, start), tables)


def _words(tables, label, start):
    """(alt text, caption) of over_training."""
    last = tables[tables["step"] == tables["step"].max()].groupby("condition")[["top1", "loss"]]
    mean, low, high = last.mean(), last.min(), last.max()
    ends = []
    for key in [key for key in LABELS if key in mean.index]:
        values = dict(mean.loc[key]) | {"low": low.loc[key], "high": high.loc[key]}
        ends.append(say("causal", "draws" if key == "final_random" else "each", label=LABELS[key], **values))
    present, n_sequences, draws = set(tables["condition"]), tables.attrs["n_sequences"], tables.attrs["draws"]
    parts = {
        "circuit": "final_circuit" in present,
        "no_circuit": "final_circuit" not in present,
        "random": "final_random" in present,
        "dotted": start is not None,
    }
    parts = " ".join(say("causal", part, draws=draws) for part, holds in parts.items() if holds)
    row = None if start is None else tables[tables["step"] == start].iloc[0]
    when = say("causal", "never" if start is None else "starts", row=row)
    return words("causal", label=label, ends="; ".join(ends), when=when, n_sequences=n_sequences, parts=parts)
