"""The figure of the causal check: what a model can do over training, with heads zeroed and without."""

import matplotlib.pyplot as plt
from matplotlib.ticker import PercentFormatter

from lib import formatting as w
from lib.figures.display import drawn
from lib.figures.style import CLASS_COLOURS, MUTED, PALETTE, WIDTH, training_axis

LINES = {  # condition: how it is drawn; what a later line covers stays visible as a wider one
    "baseline": {"color": "0.15", "lw": 1.8, "marker": "o", "ms": 4},
    "final_layers": {"color": PALETTE[4], "lw": 3.5, "alpha": 0.6},
    "final_circuit": {"color": CLASS_COLOURS["induction"], "lw": 1.8, "marker": "o", "ms": 4},
    "circuit": {"color": PALETTE[9], "ls": "", "marker": "o", "ms": 8, "mfc": "none", "mew": 1.5},
    "previous_token": {"color": CLASS_COLOURS["previous_token"], "lw": 1.5, "ls": "--", "marker": "s", "ms": 4},
}
LABELS = {
    "baseline": "nothing zeroed",
    "final_circuit": "final circuit zeroed",
    "circuit": "this revision's circuit zeroed",
    "previous_token": "previous-token circuit zeroed",
    "final_layers": "all heads of its layers zeroed",
    "final_random": "matched random heads zeroed",
}
PANELS = {"top1": "top-1", "loss": "loss (nats)"}


def over_training(tables, label, start):
    """Top-1 and loss over training, with nothing and with each set of heads zeroed, of one model.

    tables: lib.tables.causal.trajectory.  label: the model's name for readers.  start: the step from which the
    circuit matters (lib.findings.ablation.starts_to_matter), None if never.  Returns a
    lib.figures.display.Figure whose data are the tables themselves, with all four measures.
    """
    tokens = tables.groupby("step")["tokens"].first()
    fig, axes = plt.subplots(2, 1, figsize=(WIDTH, 5.6), sharex=True, layout="constrained")
    for ax, (measure, title) in zip(axes, PANELS.items()):
        x = dict(zip(tokens.index, training_axis(ax, tokens, "training tokens" if ax is axes[-1] else "")))
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
        ax.set_ylabel(title)
    if start is not None:
        axes[0].annotate(
            "the circuit starts to matter",
            (x[start], 0.97),
            (-5, 0),
            xycoords=axes[0].get_xaxis_transform(),
            textcoords="offset points",
            ha="right",
            va="top",
            color=CLASS_COLOURS["induction"],
            fontsize="small",
        )
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].set_ylim(-0.03, max(0.2, 1.12 * tables["top1"].max()))
    handles = dict(zip(*axes[0].get_legend_handles_labels()[::-1]))
    shown = [text for text in LABELS.values() if text in handles]
    fig.legend([handles[t] for t in shown], shown, loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return drawn(fig, f"causal_{label.lower()}", _alt(tables, label, start), _caption(tables, start), tables)


def _alt(tables, label, start):
    last = tables[tables["step"] == tables["step"].max()].groupby("condition")[["top1", "loss"]]
    mean, lowest, highest = last.mean(), last.min(), last.max()
    said = []
    for condition, text in LABELS.items():
        if condition not in mean.index:
            continue
        top1, loss = w.percent(mean.top1[condition]), f"{mean.loss[condition]:.2f}"
        if condition == "final_random":
            top1 += f" on average ({w.percent(lowest.top1[condition])} to {w.percent(highest.top1[condition])})"
            loss += f" ({lowest.loss[condition]:.2f} to {highest.loss[condition]:.2f})"
        said.append(f"{text}: top-1 {top1}, loss {loss}")
    if start is None:
        when = "At no revision does the circuit start to matter"
    else:
        row = tables[tables["step"] == start].iloc[0]
        when = f"The circuit starts to matter at {w.tokens_text(row['tokens'])} ({row['revision']})"
    return f"Lines of top-1 and of the loss of {label} against training tokens. At the end, {'; '.join(said)}. {when}."


def _caption(tables, start):
    n, draws = tables.attrs["n_sequences"], tables.attrs["draws"]
    present = set(tables["condition"])
    parts = [f"Top-1 (above) and loss (below) on {n:,} sequences of the batch."]
    if "final_circuit" in present:
        parts.append(
            "The final circuit is the induction circuit of the last revision; its layers are zeroed whole too."
        )
    else:
        parts.append("No induction circuit has formed by the last revision.")
    if "final_random" in present:
        parts.append(f"Grey: mean, lowest and highest of {draws} random sets of heads matched to the final circuit.")
    if start is not None:
        parts.append(
            "Dotted: from here on zeroing the final circuit raises the loss by more than every one of the draws does."
        )
    return " ".join(parts)
