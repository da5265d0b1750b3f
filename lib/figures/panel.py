"""The figures of a panel: its models side by side."""

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.ticker import PercentFormatter

from lib import findings as f
from lib import words as w
from lib.display import drawn
from lib.figures.run import pr_plane
from lib.figures.style import CLASS_COLOURS, MODEL_COLOURS, MUTED, PALETTE, WIDTH, training_axis


def bos_by_layer(runs):
    """F1 over a panel: BOS heads of every layer at every revision, one map a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads = run.heads
        counts = f.is_bos(heads, run.panel.thresholds).groupby([heads["layer"], heads["step"]]).sum().unstack()
        n_heads = heads["head"].nunique()
        sns.heatmap(
            counts,
            vmin=0,
            vmax=n_heads,
            cmap="cividis",
            annot=len(counts) <= 8,
            cbar=False,
            linewidths=0.3,
            ax=ax,
            annot_kws={"fontsize": 7},
        )
        ax.axhline(len(f.FLOOR_LAYERS), color=PALETTE[3], lw=1.5)
        ax.set(
            title=f"{run.spec.label} ({n_heads} a layer)", xlabel="revision", ylabel="layer" if ax is axes[0][0] else ""
        )
        low = int(counts.loc[list(f.FLOOR_LAYERS)].to_numpy().max())
        words.append(
            f"{run.spec.label}: at most {low} in layers 0 and 1, at most {int(counts.to_numpy().max())} in any layer"
        )
        rows.append(counts.stack().rename("bos_heads_at_30x").reset_index().assign(model=run.model))
    alt = f"Maps of BOS heads, layer by revision, for {len(runs)} models. " + "; ".join(words) + "."
    caption = "Heads past 30x on the first token (paper baseline), layer by revision 0 to the last. Red line: the floor of layers 0 and 1."
    return drawn(fig, "F1_panel", alt, caption, pd.concat(rows))


def bos_curves(runs):
    """F2 over a panel: one curve a model, with the clean baseline as a thin line."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words = [], []
    limits = []
    for colour, run in zip(MODEL_COLOURS, runs):
        curve = f.bos_curve(run.heads, run.panel.thresholds)
        x = training_axis(ax, curve["tokens"])
        limits.append(ax.get_xlim())
        ax.plot(x, curve["paper"], "-o", color=colour, label=run.spec.label)
        ax.plot(x, curve["clean"], "--", color=colour, lw=1)
        shape, _, size = f.shape_of(curve["paper"])
        words.append(
            f"{run.spec.label} ends at {w.percent(curve['paper'].iloc[-1])} ({shape}, largest step {100 * size:.1f} points)"
        )
        rows.append(curve.assign(model=run.model))
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    ax.set(ylabel="BOS heads, share of all", ylim=(-0.03, None))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="small", frameon=True, loc="upper left")
    alt = "Lines of the BOS fraction against training tokens. " + "; ".join(words) + "."
    caption = "Share of heads past 30x on the first token. Solid: the paper's baseline; dashed: the clean baseline."
    return drawn(fig, "F2_panel", alt, caption, pd.concat(rows))


def order_of_emergence(runs):
    """F3 over a panel: induction heads and BOS heads as shares of all heads, one plot a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), sharey=True, layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads, thresholds = run.heads, run.panel.thresholds
        steps = heads.groupby("step")
        x = training_axis(ax, steps["tokens"].first(), "tokens")
        circuit = f.in_circuit(heads, thresholds.induction_circuit)
        lines = {
            "induction": circuit.groupby(heads["step"]).mean(),
            "first_token": f.is_bos(heads, thresholds).groupby(heads["step"]).mean(),
        }
        for cls, line in lines.items():
            ax.plot(
                x,
                line,
                "-o",
                ms=4,
                color=CLASS_COLOURS[cls],
                label={"induction": "induction, 50x", "first_token": "BOS, 30x"}[cls],
            )
        ax.axhline(f.SINK_FRACTION, color=MUTED, ls="--", lw=1)
        ax.set_title(run.spec.label)
        met = f.milestones(heads, thresholds).set_index("key")
        when = lambda key: "never" if pd.isna(met.tokens[key]) else f"at {w.tokens_text(met.tokens[key])}"  # noqa: E731
        words.append(
            f"{run.spec.label}: {w.percent(lines['induction'].iloc[-1])} induction heads at the end (three {when('induction_3')}), {w.percent(lines['first_token'].iloc[-1])} BOS heads (half {when('bos_50')})"
        )
        rows.append(
            pd.DataFrame(
                {
                    "model": run.model,
                    "revision": steps["revision"].first(),
                    "tokens": steps["tokens"].first(),
                    "induction_fraction_at_50x": lines["induction"],
                    "bos_fraction_at_30x": lines["first_token"],
                }
            )
        )
    axes[0][0].set_ylabel("share of all heads")
    axes[0][0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0][0].legend(fontsize="x-small", frameon=True, loc="upper left")
    alt = "Lines of the shares of induction heads and BOS heads against training tokens. " + "; ".join(words) + "."
    caption = (
        "Heads past 50x induction and past 30x on the first token, as shares of all heads. Dashed: half of all heads."
    )
    return drawn(fig, "F3_panel", alt, caption, pd.concat(rows))


def recall_curves(runs):
    """F4 over a panel: recall of the final circuit against the share of training done."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words = [], []
    shares = []
    for colour, run in zip(MODEL_COLOURS, runs):
        curve = f.circuit_recall(run.heads, run.panel.thresholds.induction_circuit)
        trained = curve[curve["training"] > 0]
        shares.append(trained["training"].min())
        ax.plot(trained["training"], trained["recall"], "-o", color=colour, label=run.spec.label)
        reached = curve[curve["recall"] >= f.RECALL - 1e-9]
        words.append(
            f"{run.spec.label}, final circuit of {curve['shared'].iloc[-1]}: "
            + (
                f"two thirds after {w.percent(reached['training'].iloc[0])} of training"
                if len(reached)
                else "two thirds never reached"
            )
        )
        rows.append(curve.assign(model=run.model))
    ax.set_xscale("log")
    ax.axvspan(min(shares) / 1.5, f.EARLY, color=MUTED, alpha=0.15, lw=0)
    ax.axhline(f.RECALL, color=MUTED, ls="--", lw=1)
    ax.set(
        xlabel="share of training done",
        ylabel="recall of the final circuit",
        ylim=(-0.04, 1.06),
        xlim=(min(shares) / 1.5, 1.3),
    )
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend(fontsize="small", frameon=True, loc="center left")
    alt = (
        "Lines of the recall of the final induction circuit against the share of training done. "
        + "; ".join(words)
        + "."
    )
    caption = "Share of the final induction circuit past 50x. Dashed: two thirds; grey: the first 2 % of training. The untrained step 0 is left out."
    return drawn(fig, "F4_panel", alt, caption, pd.concat(rows))


def pr_planes(runs):
    """F5 over a panel: the selectivity-PR plane of each model at its last revision."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.2), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        heads, thresholds = run.heads, run.panel.thresholds
        final = heads[heads["step"] == heads["step"].max()]
        circuit = sorted(f.head_set(final[f.in_circuit(final, thresholds.induction_circuit)]))
        leads, level = f.spectral_leads(heads, thresholds)
        pr_plane(ax, heads, final, circuit, level, thresholds)
        ax.set(title=run.spec.label, xlabel="induction selectivity")
        mine = leads[[h in circuit for h in zip(leads["layer"], leads["head"])]]
        words.append(
            f"{run.spec.label}: {len(circuit)} circuit heads, PR ever elevated in {int(mine['elevated'].notna().sum())} of them"
        )
        rows.append(mine.assign(model=run.model))
    axes[0][0].set_ylabel("participation ratio of z")
    alt = (
        "Paths of the final circuits' heads in the plane of induction selectivity and participation ratio. "
        + "; ".join(words)
        + "."
    )
    caption = "One line a head of the final circuit, rings at the last revision; grey: all other heads. Vertical: 50x; dotted: the level from which PR counts as elevated."
    return drawn(fig, "F5_panel", alt, caption, pd.concat(rows))


PANEL_FIGURES = {"F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_planes}
