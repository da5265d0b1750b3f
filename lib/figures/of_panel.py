"""The figures of a panel: its models side by side.  Bands are bootstrap intervals over sequences."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.ticker import PercentFormatter

from lib import formatting as w
from lib.figures.display import drawn
from lib.figures.of_run import INTERVAL, bounds_of, pr_plane, recall_of, strip, strip_words
from lib.figures.style import (
    CLASS_COLOURS,
    MODEL_COLOURS,
    MUTED,
    PALETTE,
    SEQUENTIAL,
    WIDTH,
    label_ends,
    shade,
    training_axis,
)
from lib.findings import (
    CHECKS,
    EARLY,
    FLOOR_LAYERS,
    PREFIX_MATCHING,
    RECALL,
    SINK_FRACTION,
    SINK_MASS,
    SWEPT,
    by_layer,
    circuit_recall,
    fractions_by_counting,
    in_circuit,
    is_bos,
    milestone_steps,
    pr_tells_first,
    shape_of,
    spectral_leads,
)


def bos_by_layer(runs):
    """F1 over a panel: BOS heads of every layer at every revision, one map a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        trajectory = run.trajectory
        counts = pd.DataFrame(by_layer(trajectory, is_bos(trajectory, run.counting)).T).rename_axis("layer")
        low, high = bounds_of(trajectory, lambda heads: by_layer(heads, is_bos(heads, run.counting)))
        unsettled = (low != high).T
        n_heads = np.bincount(trajectory.layer).max()
        said = counts.astype(str) + np.where(unsettled, "*", "")
        sns.heatmap(
            counts,
            vmin=0,
            vmax=n_heads,
            cmap=SEQUENTIAL,
            annot=said if len(counts) <= 8 else None,
            fmt="",
            cbar=False,
            linewidths=0.3,
            ax=ax,
            annot_kws={"fontsize": 7},
        )
        ax.axhline(len(FLOOR_LAYERS), color=PALETTE[3], lw=1.5)
        ax.set(
            title=f"{run.spec.label} ({n_heads} a layer)", xlabel="revision", ylabel="layer" if ax is axes[0][0] else ""
        )
        floor = int(counts.loc[list(FLOOR_LAYERS)].to_numpy().max())
        words.append(
            f"{run.spec.label}: at most {floor} in layers 0 and 1, at most {int(counts.to_numpy().max())} in any layer, "
            f"{int(unsettled.sum())} counts unsettled"
        )
        rows.append(
            pd.DataFrame(
                {
                    "model": run.model,
                    "layer": np.repeat(counts.index, counts.shape[1]),
                    "revision": list(trajectory.names) * len(counts),
                    "bos_heads_at_30x": counts.to_numpy().ravel(),
                    "low": low.T.ravel(),
                    "high": high.T.ravel(),
                }
            )
        )
    alt = f"Maps of BOS heads, layer by revision, for {len(runs)} models. " + "; ".join(words) + "."
    caption = (
        "Heads past 30x on the first token (paper baseline), layer by revision 0 to the last. Red line: the floor of "
        "layers 0 and 1. A star: the count changes within its bootstrap interval."
    )
    return drawn(fig, "F1_panel", alt, caption, pd.concat(rows))


def bos_curves(runs):
    """F2 over a panel: one curve a model, with the clean baseline and sink mass as thin lines."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words, ends = [], [], []
    limits = []
    for colour, run in zip(MODEL_COLOURS, runs):
        trajectory = run.trajectory
        curve = fractions_by_counting(trajectory, run.counting)
        x = training_axis(ax, trajectory.tokens)
        limits.append(ax.get_xlim())
        ax.plot(x, curve["paper"], "-o", color=colour, label=run.spec.label)
        ends.append((x[-1], curve["paper"].iloc[-1], f"{run.spec.label} {w.percent(curve['paper'].iloc[-1])}", colour))
        ax.plot(x, curve["clean"], "--", color=colour, lw=1)
        ax.plot(x, curve["mass"], ":", color=colour, lw=1.2)
        low, high = bounds_of(trajectory, lambda heads: is_bos(heads, run.counting).mean(axis=-1))
        shade(ax, x, (low, high), colour)
        shape, _, size = shape_of(curve["paper"])
        words.append(
            f"{run.spec.label} ends at {w.percent(curve['paper'].iloc[-1])} ({shape}, largest step {100 * size:.1f} points)"
        )
        rows.append(curve.assign(model=run.model, paper_low=low, paper_high=high))
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    top = ax.get_ylim()[1]
    ax.set(ylabel="BOS heads, share of all", ylim=(-0.04 * top, top))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(ax, ends)
    alt = "Lines of the BOS fraction against training tokens. " + "; ".join(words) + "."
    caption = (
        "Share of heads past 30x on the first token. Solid: the paper's baseline; dashed: the clean baseline; dotted: "
        f"sink mass over {SINK_MASS:g}. Bands: {INTERVAL}."
    )
    return drawn(fig, "F2_panel", alt, caption, pd.concat(rows))


def order_of_emergence(runs):
    """F3 over a panel: induction heads and BOS heads as shares of all heads, one plot a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.0), sharey=True, layout="constrained", squeeze=False)
    rows, words, ends = [], [], {run.model: [] for run in runs}
    for ax, run in zip(axes[0], runs):
        trajectory = run.trajectory
        x = training_axis(ax, trajectory.tokens, "tokens")
        row = {"model": run.model, "revision": trajectory.names, "tokens": trajectory.tokens}
        for cls, mask, label in (
            ("induction", in_circuit, "induction"),
            ("first_token", is_bos, "BOS"),
        ):
            share = lambda heads, mask=mask: mask(heads, run.counting).mean(axis=-1)  # noqa: E731
            line = share(trajectory)
            low, high = bounds_of(trajectory, share)
            ax.plot(x, line, "-o", ms=4, color=CLASS_COLOURS[cls])
            shade(ax, x, (low, high), CLASS_COLOURS[cls])
            ends[run.model].append((x[-1], line[-1], label, CLASS_COLOURS[cls]))
            row |= {f"{cls}_fraction": line, f"{cls}_low": low, f"{cls}_high": high}
        ax.axhline(SINK_FRACTION, color=MUTED, ls="--", lw=1)
        ax.set_title(run.spec.label)
        steps = milestone_steps(trajectory, run.counting)
        when = lambda key: (  # noqa: E731
            "never" if steps[key] is None else f"at {w.tokens_text(trajectory.tokens[steps[key]])}"
        )
        words.append(
            f"{run.spec.label}: {w.percent(row['induction_fraction'][-1])} induction heads at the end (three "
            f"{when('induction_3')}), {w.percent(row['first_token_fraction'][-1])} BOS heads (half {when('bos_50')})"
        )
        rows.append(pd.DataFrame(row))
    axes[0][0].set_ylabel("share of all heads")
    axes[0][0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for ax, run in zip(axes[0], runs):
        label_ends(ax, ends[run.model], fontsize="x-small")
    alt = "Lines of the shares of induction heads and BOS heads against training tokens. " + "; ".join(words) + "."
    caption = (
        "Heads past 50x induction and past 30x on the first token, as shares of all heads. Dashed: half of all heads. "
        f"Bands: {INTERVAL}."
    )
    return drawn(fig, "F3_panel", alt, caption, pd.concat(rows))


def recall_curves(runs):
    """F4 over a panel: recall of the final circuit against the share of training done."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    rows, words, ends = [], [], []
    shares = []
    for colour, run in zip(MODEL_COLOURS, runs):
        trajectory = run.trajectory
        curve = circuit_recall(trajectory, run.counting)
        lower = circuit_recall(trajectory, run.counting, run.counting.thresholds.classify)
        low, high = bounds_of(trajectory, lambda heads: recall_of(heads, run.counting))
        trained = (curve["training"] > 0).to_numpy()
        x = curve["training"][trained]
        shares.append(x.min())
        ax.plot(x, curve["recall"][trained], "-o", color=colour)
        ax.plot(x, lower["recall"][trained], "--", color=colour, lw=1)
        shade(ax, x, (low[trained], high[trained]), colour)
        reached = curve[curve["recall"] >= RECALL - 1e-9]
        before = curve.iloc[-2]  # all of them end at 1: they are told apart a revision earlier
        ends.append((before["training"], before["recall"], run.spec.label, colour))
        words.append(
            f"{run.spec.label}, final circuit of {curve['shared'].iloc[-1]}: "
            + (
                f"two thirds after {w.percent(reached['training'].iloc[0])} of training"
                if len(reached)
                else "two thirds never reached"
            )
        )
        rows.append(curve.assign(model=run.model, recall_low=low, recall_high=high, recall_at_30x=lower["recall"]))
    ax.set_xscale("log")
    ax.axvspan(min(shares) / 1.5, EARLY, color=MUTED, alpha=0.15, lw=0)
    ax.axhline(RECALL, color=MUTED, ls="--", lw=1)
    ax.set(
        xlabel="share of training done",
        ylabel="recall of the final circuit",
        ylim=(-0.04, 1.06),
        xlim=(min(shares) / 1.5, 1.3),
    )
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(ax, ends, side=-1)
    alt = (
        "Lines of the recall of the final induction circuit against the share of training done. "
        + "; ".join(words)
        + "."
    )
    caption = (
        "Share of the final induction circuit past 50x (thin dashes: past 30x). Dashed horizontal: two thirds; grey: the "
        f"first 2 % of training. The untrained step 0 is left out. Bands: {INTERVAL}."
    )
    return drawn(fig, "F4_panel", alt, caption, pd.concat(rows))


def pr_planes(runs):
    """F5 over a panel: the selectivity-PR plane of each model at its last revision."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 3.2), layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        trajectory = run.trajectory
        inside = in_circuit(trajectory, run.counting)[-1]
        pr_plane(ax, trajectory, inside, run.counting, run.baseline_ceiling)
        ax.set(title=run.spec.label, xlabel="induction selectivity")
        leads = spectral_leads(trajectory, run.counting)[inside]
        words.append(
            f"{run.spec.label}: {len(leads)} circuit heads, PR ever elevated in {int(leads['elevated'].notna().sum())} of them"
        )
        rows.append(leads.assign(model=run.model))
    axes[0][0].set_ylabel("participation ratio of z")
    alt = (
        "Paths of the final circuits' heads in the plane of induction selectivity and participation ratio. "
        + "; ".join(words)
        + "."
    )
    caption = (
        "One line a head of the final circuit, rings at the last revision; grey: all other heads. Verticals: 50x, and "
        "(dotted) the ceiling that the paper's baseline sets; dotted horizontal: the level from which PR counts as elevated."
    )
    return drawn(fig, "F5_panel", alt, caption, pd.concat(rows))


PANEL_FIGURES = {"F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_planes}


def separations(runs, group="all layers"):
    """F5's null over a panel: how well PR and selectivity tell circuit heads from controls, one plot a model."""
    fig, axes = plt.subplots(1, len(runs), figsize=(WIDTH, 2.9), sharey=True, layout="constrained", squeeze=False)
    rows, words = [], []
    for ax, run in zip(axes[0], runs):
        trajectory = run.trajectory
        x = training_axis(ax, trajectory.tokens, "tokens")
        ax.axhline(0.5, color=MUTED, ls="--", lw=1)
        ax.set_title(run.spec.label)
        curves = run.separation
        curve = curves[curves["controls"] == group] if len(curves) else curves
        if curve.empty:
            words.append(f"{run.spec.label}: nothing to compare")
            continue
        for name, label, colour in (
            ("selectivity", "induction selectivity", CLASS_COLOURS["induction"]),
            ("pr", "PR", PALETTE[3]),
        ):
            ax.plot(x, curve[name], "-o", ms=4, color=colour, label=label)
            shade(ax, x, (curve[f"{name}_low"], curve[f"{name}_high"]), colour)
        words.append(f"{run.spec.label}: {pr_tells_first(curves, group)}.")
        rows.append(curves.assign(model=run.model))
    axes[0][0].set(ylabel="area under the ROC curve", ylim=(-0.03, 1.03))
    if rows:
        fig.legend(*axes[0][0].get_legend_handles_labels(), fontsize="x-small", loc="outside upper center", ncol=2)
    n = ", ".join(str(int((~in_circuit(r.trajectory, r.counting).any(axis=0)).sum())) for r in runs)
    alt = "Lines of the area under the ROC curve, 0.5 being chance, against training tokens. " + " ".join(words)
    caption = (
        "Probability that a head of the final circuit lies above a control head, by PR and by induction selectivity. "
        f"Controls: heads of all layers that never pass 50x ({n}). Dashed: chance. Bands: 95 % bootstrap intervals over "
        "sequences and heads."
    )
    data = pd.concat(rows) if rows else pd.DataFrame({"model": [r.model for r in runs]})
    return drawn(fig, "F5_controls", alt, caption, data)


def sensitivities(runs, findings):
    """What the verdicts of one finding rest on: a strip a model and threshold.  findings: {model label: Finding}."""
    some = next(iter(findings.values()))
    swept = list(some.sweeps["swept"].unique())
    n_rows = some.sweeps["counting"].nunique()
    fig, axes = plt.subplots(
        len(swept), len(runs), figsize=(WIDTH, len(swept) * (0.75 + 0.24 * n_rows)), sharey=True, layout="constrained",
        squeeze=False,
    )  # fmt: skip
    rows = []
    for column, (run, (label, finding)) in enumerate(zip(runs, findings.items())):
        for row, name in enumerate(swept):
            ax = axes[row][column]
            strip(ax, finding.sweeps[finding.sweeps["swept"] == name], getattr(run.panel.thresholds, name))
            ax.set_xlabel(f"{SWEPT[name]} (x)", fontsize="small")
            if row == 0:
                ax.set_title(label)
        rows.append(finding.sweeps.assign(model=run.model))
    alt, caption = strip_words(findings)
    return drawn(fig, f"{some.id}_assumptions", alt, caption, pd.concat(rows))


def checks(runs):
    """The screen against the independent checks, every head of every checkpoint of a panel."""
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.5), layout="constrained")
    thresholds = runs[0].panel.thresholds
    words = []
    for ax, (check, (screened, checked, mask)) in zip(axes, CHECKS.items()):
        n = agree = 0
        for colour, run in zip(MODEL_COLOURS, runs):
            heads = run.heads
            ax.scatter(
                heads[screened].clip(lower=0.1),
                heads[checked],
                s=10,
                color=colour,
                alpha=0.5,
                lw=0,
                label=run.spec.label,
            )
            screen, other = mask(heads, run.counting), mask(heads, replace(run.counting, by="mass"))
            n, agree = n + len(heads), agree + int((screen == other).sum())
        threshold = thresholds.induction_circuit if check == "induction" else thresholds.classify
        ax.axvline(threshold, color=MUTED, ls="--", lw=1)
        ax.axhline(PREFIX_MATCHING if check == "induction" else SINK_MASS, color=MUTED, ls="--", lw=1)
        title = {"induction": "Induction", "first_token": "First token"}[check]
        ax.set(xscale="log", ylim=(-0.03, 1.03), title=title)
        ax.set_xlabel(f"{check.replace('_', '-')} selectivity (times the baseline)")
        ax.set_ylabel(
            checked.replace("_", "-").replace("sink-mass", "sink mass") + (" score" if check == "induction" else "")
        )
        words.append(f"{title.lower()}: {agree} of {n} heads on the same side of both thresholds")
    axes[0].legend(fontsize="x-small", frameon=True, loc="upper left")
    alt = "Scatter plots of the screen's selectivity against an independent measure. " + "; ".join(words) + "."
    caption = (
        "One point a head and checkpoint. Dashed: the thresholds of the screen and of the check. Heads in the upper right "
        "and lower left quarters are those on which both agree."
    )
    columns = ["revision", "layer", "head", *[x for s, k, _ in CHECKS.values() for x in (s, k)]]
    return drawn(fig, "crosschecks", alt, caption, pd.concat([r.heads[columns].assign(model=r.model) for r in runs]))
