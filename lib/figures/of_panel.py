"""The figures of a panel: its models side by side, and what zeroing heads does to each of them.

runs are lib.report.run_page.Run, a model each at its last revision.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from lib import findings
from lib.figures.display import drawn
from lib.figures.drawing import (
    DASHED, INTERVAL, bounds_of, layer_map, line_with_band, plots, recall_frame, share_axis, share_of_training_axis,
)  # fmt: skip
from lib.figures.of_run import bos_by_layer as bos_heads_of
from lib.figures.of_run import pr_plane, recall_of, share_of, strip_words, strips
from lib.figures.style import CLASS_COLOURS, MODEL_COLOURS, MUTED, PALETTE, WIDTH, label_ends, shade, training_axis
from lib.formatting import percent, tokens_text


def bos_by_layer(runs):
    """F1: BOS heads of every layer at every revision, one map a model."""
    fig, (axes,) = plots(1, len(runs), 3.0)
    frames, words = [], []
    for ax, run in zip(axes, runs):
        trajectory, label, floor = run.trajectory, run.spec.label, findings.F1.FLOOR_LAYERS
        counts = pd.DataFrame(bos_heads_of(run.counting)(trajectory).T).rename_axis("layer")
        low, high = (bound.T for bound in bounds_of(trajectory, bos_heads_of(run.counting)))
        unsettled = low != high
        n_heads = np.bincount(trajectory.layer).max()
        said = counts.astype(str) + np.where(unsettled, "*", "") if len(counts) <= 8 else None
        layer_map(ax, counts, label, n_heads, floor, vmax=n_heads, annot=said, annot_kws={"fontsize": 7})
        ax.set_xlabel("revision")
        words.append(
            f"{label}: at most {counts.loc[list(floor)].to_numpy().max()} in layers 0 and 1, at most "
            f"{counts.to_numpy().max()} in any layer, {unsettled.sum()} counts unsettled"
        )
        frames.append(
            pd.DataFrame(
                {
                    "model": run.model,
                    "layer": np.repeat(counts.index, counts.shape[1]),
                    "revision": list(trajectory.names) * len(counts),
                    "bos_heads_at_30x": counts.to_numpy().ravel(),
                    "low": low.ravel(),
                    "high": high.ravel(),
                }
            )
        )
    alt = f"Maps of BOS heads, layer by revision, for {len(runs)} models. {'; '.join(words)}."
    caption = (
        "Heads past 30x on the first token (paper baseline), layer by revision 0 to the last. Red line: the floor of "
        "layers 0 and 1. A star: the count changes within its bootstrap interval."
    )
    return drawn(fig, "F1_panel", alt, caption, pd.concat(frames))


def bos_curves(runs):
    """F2: one curve a model, with the clean baseline and sink mass as thin lines."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    frames, words, ends, limits = [], [], [], []
    for colour, run in zip(MODEL_COLOURS, runs):
        trajectory, label = run.trajectory, run.spec.label
        curve = findings.F2.bos_curves(trajectory, run.counting)
        shape, _, size = findings.F2.shape_of(curve["paper"])
        x = training_axis(ax, trajectory.tokens)
        limits.append(ax.get_xlim())
        share = share_of(findings.counting.is_bos, run.counting)
        bos, low, high = line_with_band(ax, x, trajectory, share, colour, label=label)
        ax.plot(x, curve["clean"], "--", color=colour, lw=1)
        ax.plot(x, curve["mass"], ":", color=colour, lw=1.2)
        ends.append((x[-1], bos[-1], f"{label} {percent(bos[-1])}", colour))
        words.append(f"{label} ends at {percent(bos[-1])} ({shape}, largest step {100 * size:.1f} points)")
        frames.append(curve.assign(model=run.model, paper_low=low, paper_high=high))
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    top = ax.get_ylim()[1]
    share_axis(ax, ylabel="BOS heads, share of all", ylim=(-0.04 * top, top))
    label_ends(ax, ends)
    alt = f"Lines of the BOS fraction against training tokens. {'; '.join(words)}."
    caption = (
        "Share of heads past 30x on the first token. Solid: the paper's baseline; dashed: the clean baseline; dotted: "
        f"sink mass over {findings.counting.SINK_MASS:g}. Bands: {INTERVAL}."
    )
    return drawn(fig, "F2_panel", alt, caption, pd.concat(frames))


def order_of_emergence(runs):
    """F3: induction heads and BOS heads as shares of all heads, one plot a model."""
    fig, (axes,) = plots(1, len(runs), 3.0, sharey=True)
    frames, words, ends = [], [], {ax: [] for ax in axes}
    kinds = {"induction": (findings.counting.in_circuit, "induction"), "first_token": (findings.counting.is_bos, "BOS")}
    for ax, run in zip(axes, runs):
        trajectory, label = run.trajectory, run.spec.label
        x = training_axis(ax, trajectory.tokens, "tokens")
        frame = {"model": run.model, "revision": trajectory.names, "tokens": trajectory.tokens}
        for cls, (mask, name) in kinds.items():
            share, colour = share_of(mask, run.counting), CLASS_COLOURS[cls]
            line, low, high = line_with_band(ax, x, trajectory, share, colour, ms=4)
            ends[ax].append((x[-1], line[-1], name, colour))
            frame |= {f"{cls}_fraction": line, f"{cls}_low": low, f"{cls}_high": high}
        ax.axhline(findings.F3.SINK_FRACTION, **DASHED)
        ax.set_title(label)
        first = {
            key: "never" if step is None else f"at {tokens_text(trajectory.tokens[step])}"
            for key, step in findings.F3.milestone_steps(trajectory, run.counting).items()
        }
        words.append(
            f"{label}: {percent(frame['induction_fraction'][-1])} induction heads at the end (three "
            f"{first['induction_3']}), {percent(frame['first_token_fraction'][-1])} BOS heads (half {first['bos_50']})"
        )
        frames.append(pd.DataFrame(frame))
    share_axis(axes[0], ylabel="share of all heads")
    for ax in axes:
        label_ends(ax, ends[ax], fontsize="x-small")
    alt = f"Lines of the shares of induction heads and BOS heads against training tokens. {'; '.join(words)}."
    caption = (
        "Heads past 50x induction and past 30x on the first token, as shares of all heads. Dashed: half of all heads. "
        f"Bands: {INTERVAL}."
    )
    return drawn(fig, "F3_panel", alt, caption, pd.concat(frames))


def recall_curves(runs):
    """F4: recall of the final circuit against the share of training done."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    frames, words, ends, firsts, F4 = [], [], [], [], findings.F4
    for colour, run in zip(MODEL_COLOURS, runs):
        label = run.spec.label
        curve = F4.circuit_recall(run.trajectory, run.counting)
        lower = F4.circuit_recall(run.trajectory, run.counting, run.counting.thresholds.classify)
        low, high = bounds_of(run.trajectory, recall_of(run.counting))
        trained = (curve["training"] > 0).to_numpy()
        x = curve["training"][trained]
        firsts.append(x.min())
        ax.plot(x, curve["recall"][trained], "-o", color=colour)
        ax.plot(x, lower["recall"][trained], "--", color=colour, lw=1)
        shade(ax, x, (low[trained], high[trained]), colour)
        before = curve.iloc[-2]  # all of them end at 1: they are told apart a revision earlier
        ends.append((before["training"], before["recall"], label, colour))
        reached = curve.loc[curve["recall"] >= F4.RECALL - 1e-9, "training"]
        when = f"after {percent(reached.iloc[0])} of training" if len(reached) else "never reached"
        words.append(f"{label}, final circuit of {curve['shared'].iloc[-1]}: two thirds {when}")
        frames.append(curve.assign(model=run.model, recall_low=low, recall_high=high, recall_at_30x=lower["recall"]))
    recall_frame(ax, share_of_training_axis(ax, min(firsts)), F4.EARLY, F4.RECALL)
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    label_ends(ax, ends, side=-1)
    alt = f"Lines of the recall of the final induction circuit against the share of training done. {'; '.join(words)}."
    caption = (
        "Share of the final induction circuit past 50x (thin dashes: past 30x). Dashed horizontal: two thirds; grey: the "
        f"first 2 % of training. The untrained step 0 is left out. Bands: {INTERVAL}."
    )
    return drawn(fig, "F4_panel", alt, caption, pd.concat(frames))


def pr_planes(runs):
    """F5: the selectivity-PR plane of each model at its last revision."""
    fig, (axes,) = plots(1, len(runs), 3.2)
    frames, words = [], []
    for ax, run in zip(axes, runs):
        trajectory = run.trajectory
        inside = findings.counting.in_circuit(trajectory, run.counting)[-1]
        pr_plane(ax, trajectory, inside, run.counting, run.baseline_ceiling)
        ax.set(title=run.spec.label, xlabel="induction selectivity")
        leads = findings.F5.spectral_leads(trajectory, run.counting)[inside]
        elevated = leads["elevated"].notna().sum()
        words.append(f"{run.spec.label}: {len(leads)} circuit heads, PR ever elevated in {elevated} of them")
        frames.append(leads.assign(model=run.model))
    axes[0].set_ylabel("participation ratio of z")
    alt = (
        "Paths of the final circuits' heads in the plane of induction selectivity and participation ratio. "
        f"{'; '.join(words)}."
    )
    caption = (
        "One line a head of the final circuit, rings at the last revision; grey: all other heads. Verticals: 50x, and "
        "(dotted) the ceiling that the paper's baseline sets; dotted horizontal: the level from which PR counts as elevated."
    )
    return drawn(fig, "F5_panel", alt, caption, pd.concat(frames))


PANEL_FIGURES = {"F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_planes}


def separations(runs, group="all layers"):
    """F5's null: how well PR and selectivity tell circuit heads from controls, one plot a model."""
    fig, (axes,) = plots(1, len(runs), 2.9, sharey=True)
    frames, words = [], []
    for ax, run in zip(axes, runs):
        x = training_axis(ax, run.trajectory.tokens, "tokens")
        ax.axhline(0.5, **DASHED)
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
        words.append(f"{run.spec.label}: {findings.controls.answer(curves, group)}.")
        frames.append(curves.assign(model=run.model))
    axes[0].set(ylabel="area under the ROC curve", ylim=(-0.03, 1.03))
    if frames:
        fig.legend(*axes[0].get_legend_handles_labels(), fontsize="x-small", loc="outside upper center", ncol=2)
    controls = [~findings.counting.in_circuit(run.trajectory, run.counting).any(axis=0) for run in runs]
    alt = f"Lines of the area under the ROC curve, 0.5 being chance, against training tokens. {' '.join(words)}"
    caption = (
        "Probability that a head of the final circuit lies above a control head, by PR and by induction selectivity. "
        f"Controls: heads of all layers that never pass 50x ({', '.join(str(mask.sum()) for mask in controls)}). "
        "Dashed: chance. Bands: 95 % bootstrap intervals over sequences and heads."
    )
    data = pd.concat(frames) if frames else pd.DataFrame({"model": [run.model for run in runs]})
    return drawn(fig, "F5_controls", alt, caption, data)


def sensitivities(runs, by_model):
    """What the verdicts of one finding rest on: a strip a model and threshold.  by_model: {model label: Finding}."""
    some = next(iter(by_model.values()))
    n_swept, n_countings = some.sweeps["swept"].nunique(), some.sweeps["counting"].nunique()
    fig, axes = plots(n_swept, len(runs), n_swept * (0.75 + 0.24 * n_countings), sharey=True)
    for column, run, (label, finding) in zip(axes.T, runs, by_model.items()):
        strips(column, finding, run.panel.thresholds, "x")
        column[0].set_title(label)
    alt, caption = strip_words(by_model)
    data = pd.concat(finding.sweeps.assign(model=run.model) for run, finding in zip(runs, by_model.values()))
    return drawn(fig, f"{some.id}_assumptions", alt, caption, data)


def checks(runs):
    """The screen against the independent checks, every head of every checkpoint of a panel."""
    fig, (axes,) = plots(1, 2, 3.5)
    thresholds, counting = runs[0].panel.thresholds, findings.counting
    plotted = {
        "induction": ("Induction", "prefix-matching score", thresholds.induction_circuit, counting.PREFIX_MATCHING),
        "first_token": ("First token", "sink mass", thresholds.classify, counting.SINK_MASS),
    }
    words, columns = [], ["revision", "layer", "head"]
    for ax, (cls, (title, ylabel, threshold, level)) in zip(axes, plotted.items()):
        screened, checked, mask = findings.crosschecks.CHECKS[cls]
        columns += [screened, checked]
        agree = []
        for colour, run in zip(MODEL_COLOURS, runs):
            heads, label = run.heads, run.spec.label
            ax.scatter(
                heads[screened].clip(lower=0.1), heads[checked], s=10, color=colour, alpha=0.5, lw=0, label=label
            )
            agree.extend(mask(heads, run.counting) == mask(heads, replace(run.counting, by="mass")))
        ax.axvline(threshold, **DASHED)
        ax.axhline(level, **DASHED)
        ax.set(xscale="log", ylim=(-0.03, 1.03), title=title, ylabel=ylabel)
        ax.set_xlabel(f"{cls.replace('_', '-')} selectivity (times the baseline)")
        words.append(f"{title.lower()}: {sum(agree)} of {len(agree)} heads on the same side of both thresholds")
    axes[0].legend(fontsize="x-small", frameon=True, loc="upper left")
    alt = f"Scatter plots of the screen's selectivity against an independent measure. {'; '.join(words)}."
    caption = (
        "One point a head and checkpoint. Dashed: the thresholds of the screen and of the check. Heads in the upper right "
        "and lower left quarters are those on which both agree."
    )
    return drawn(fig, "crosschecks", alt, caption, pd.concat([r.heads[columns].assign(model=r.model) for r in runs]))


# What zeroing does ------------------------------------------------------------------

CONDITIONS = {  # condition: its name, in the order of the legend
    "baseline": "nothing zeroed",
    "final_circuit": "final circuit zeroed",
    "circuit": "this revision's circuit zeroed",
    "previous_token": "previous-token circuit zeroed",
    "final_layers": "all heads of its layers zeroed",
    "final_random": "matched random heads zeroed",
}
LINES = {  # condition: how it is drawn, in this order; what a later line covers stays visible as a wider one
    "baseline": {"color": "0.15", "lw": 1.8, "marker": "o", "ms": 4},
    "final_layers": {"color": PALETTE[4], "lw": 3.5, "alpha": 0.6},
    "final_circuit": {"color": CLASS_COLOURS["induction"], "lw": 1.8, "marker": "o", "ms": 4},
    "circuit": {"color": PALETTE[9], "ls": "", "marker": "o", "ms": 8, "mfc": "none", "mew": 1.5},
    "previous_token": {"color": CLASS_COLOURS["previous_token"], "lw": 1.5, "ls": "--", "marker": "s", "ms": 4},
}


def over_training(tables, label):
    """Top-1 and loss of one model over training, with nothing and with each set of heads zeroed.

    tables: lib.tables.causal.trajectory.  label: the model's name for readers.  The figure's
    data are the tables themselves, with all four measures.
    """
    tokens = tables.groupby("step")["tokens"].first()
    start = findings.effects.starts_to_matter(tables)
    fig, ((top,), (bottom,)) = plots(2, 1, 5.6, sharex=True)
    for ax, measure, ylabel, xlabel in ((top, "top1", "top-1", ""), (bottom, "loss", "loss (nats)", "training tokens")):
        x = dict(zip(tokens.index, training_axis(ax, tokens, xlabel)))
        random = tables[tables["condition"] == "final_random"].groupby("step")[measure]
        if len(random):
            at = [x[step] for step in random.mean().index]
            ax.fill_between(at, random.min(), random.max(), color=MUTED, alpha=0.25, lw=0)
            ax.plot(at, random.mean(), color=MUTED, lw=1.8, label=CONDITIONS["final_random"])
        for condition, style in LINES.items():
            rows = tables[tables["condition"] == condition].sort_values("step")
            if len(rows):
                ax.plot(rows["step"].map(x), rows[measure], label=CONDITIONS[condition], **style)
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
    shown = [text for text in CONDITIONS.values() if text in handles]
    fig.legend([handles[t] for t in shown], shown, loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    return drawn(
        fig, f"causal_{label.lower()}", _causal_alt(tables, label, start), _causal_caption(tables, start), tables
    )


def _causal_alt(tables, label, start):
    last = tables[tables["step"] == tables["step"].max()].groupby("condition")[["top1", "loss"]]
    mean, lowest, highest = last.mean(), last.min(), last.max()
    said = []
    for condition, text in CONDITIONS.items():
        if condition not in mean.index:
            continue
        top1, loss = percent(mean.top1[condition]), f"{mean.loss[condition]:.2f}"
        if condition == "final_random":
            top1 += f" on average ({percent(lowest.top1[condition])} to {percent(highest.top1[condition])})"
            loss += f" ({lowest.loss[condition]:.2f} to {highest.loss[condition]:.2f})"
        said.append(f"{text}: top-1 {top1}, loss {loss}")
    if start is None:
        when = "At no revision does the circuit start to matter"
    else:
        row = tables[tables["step"] == start].iloc[0]
        when = f"The circuit starts to matter at {tokens_text(row['tokens'])} ({row['revision']})"
    return f"Lines of top-1 and of the loss of {label} against training tokens. At the end, {'; '.join(said)}. {when}."


def _causal_caption(tables, start):
    n, draws = tables.attrs["n_sequences"], tables.attrs["draws"]
    present = set(tables["condition"])
    parts = [
        f"Top-1 (above) and loss (below) on {n:,} sequences of the batch.",
        "The final circuit is the induction circuit of the last revision; its layers are zeroed whole too."
        if "final_circuit" in present
        else "No induction circuit has formed by the last revision.",
    ]
    if "final_random" in present:
        parts.append(f"Grey: mean, lowest and highest of {draws} random sets of heads matched to the final circuit.")
    if start is not None:
        parts.append(
            "Dotted: from here on zeroing the final circuit raises the loss by more than every one of the draws does."
        )
    return " ".join(parts)
