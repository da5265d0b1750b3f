"""The figures of a panel: its models side by side.

runs are lib.report.run_page.Run, a model each at its last revision.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import PercentFormatter

from lib import findings
from lib.figures.display import drawn, say, words
from lib.figures.drawing import DASHED, INTERVAL, layer_map, plots, recall_against_training, share_axis, with_interval
from lib.figures.of_run import bos_by_layer as bos_heads_by_layer
from lib.figures.of_run import bos_share, pr_plane, recall_of, strip_words, strips
from lib.figures.style import BLUE, MODEL_COLOURS, ORANGE, PALETTE, WIDTH, label_ends, shade, training_axis
from lib.formatting import percent, tokens_text


def _labels(runs):
    return [run.spec.label for run in runs]


def bos_by_layer(runs):
    """F1: BOS heads of every layer at every revision, one map a model."""
    fig, (axes,) = plots(1, len(runs), 3.0)
    frames, said = [], []
    for ax, run in zip(axes, runs):
        trajectory, label, floor = run.trajectory, run.spec.label, findings.FLOOR_LAYERS
        values, low, high = (part.T for part in with_interval(trajectory, bos_heads_by_layer, run.counting))
        counts, unsettled = pd.DataFrame(values).rename_axis("layer"), low != high
        n_heads = np.bincount(trajectory.layer).max()
        annot = counts.astype(str) + np.where(unsettled, "*", "") if len(counts) <= 8 else None
        layer_map(ax, counts, label, n_heads, floor, vmax=n_heads, annot=annot, annot_kws={"fontsize": 7})
        ax.set_xlabel("revision")
        most = {"floor": values[list(floor)].max(), "most": values.max()}
        said.append({"label": label, **most, "unsettled": unsettled.sum()})
        frame = {"model": run.model, "layer": np.repeat(counts.index, counts.shape[1])}
        frame |= {"revision": list(trajectory.names) * len(counts)}
        frame |= {"bos_heads_at_30x": values.ravel(), "low": low.ravel(), "high": high.ravel()}
        frames.append(pd.DataFrame(frame))
    return drawn(fig, "F1_panel", *words("F1_panel", said, n=len(runs)), pd.concat(frames))


def bos_curves(runs):
    """F2: one curve a model, with the clean baseline and sink mass as thin lines."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    frames, said, ends, limits = [], [], [], []
    for colour, run in zip(MODEL_COLOURS, runs):
        trajectory, label = run.trajectory, run.spec.label
        curve = findings.fractions_by_counting(trajectory, run.counting)
        shape, _, size = findings.shape_of(curve["paper"])
        x = training_axis(ax, trajectory.tokens)
        limits.append(ax.get_xlim())
        bos, low, high = with_interval(trajectory, bos_share, run.counting)
        ax.plot(x, bos, "-o", color=colour, label=label)
        shade(ax, x, (low, high), colour)
        ax.plot(x, curve["clean"], "--", color=colour, lw=1)
        ax.plot(x, curve["mass"], ":", color=colour, lw=1.2)
        ends.append((x[-1], bos[-1], f"{label} {percent(bos[-1])}", colour))
        said.append({"label": label, "bos": bos[-1], "shape": shape, "points": 100 * size})
        frames.append(curve.assign(model=run.model, paper_low=low, paper_high=high))
    ax.set_xlim(min(a for a, _ in limits), max(b for _, b in limits))
    top = ax.get_ylim()[1]
    share_axis(ax, ylabel="BOS heads, share of all", ylim=(-0.04 * top, top))
    label_ends(ax, ends)
    said = words("F2_panel", said, sink_mass=findings.SINK_MASS, interval=INTERVAL)
    return drawn(fig, "F2_panel", *said, pd.concat(frames))


def order_of_emergence(runs):
    """F3: induction heads and BOS heads as shares of all heads, one plot a model."""
    fig, (axes,) = plots(1, len(runs), 3.0, _labels(runs), sharey=True)
    frames, said, ends = [], [], {ax: [] for ax in axes}
    in_circuit = lambda heads, counting: findings.in_circuit(heads, counting).mean(axis=-1)  # noqa: E731
    kinds = {"induction": (in_circuit, "induction", BLUE), "first_token": (bos_share, "BOS", ORANGE)}
    for ax, run in zip(axes, runs):
        trajectory, label = run.trajectory, run.spec.label
        x = training_axis(ax, trajectory.tokens, "tokens")
        frame = {"model": run.model, "revision": trajectory.names, "tokens": trajectory.tokens}
        for cls, (share, name, colour) in kinds.items():
            line, low, high = with_interval(trajectory, share, run.counting)
            ax.plot(x, line, "-o", ms=4, color=colour)
            shade(ax, x, (low, high), colour)
            ends[ax].append((x[-1], line[-1], name, colour))
            frame |= {f"{cls}_fraction": line, f"{cls}_low": low, f"{cls}_high": high}
        ax.axhline(findings.SINK_FRACTION, **DASHED)
        first = {
            key: "never" if step is None else f"at {tokens_text(trajectory.tokens[step])}"
            for key, step in findings.milestone_steps(trajectory, run.counting).items()
        }
        at_the_end = {"induction": frame["induction_fraction"][-1], "bos": frame["first_token_fraction"][-1]}
        said.append({"label": label, **at_the_end, "first": first})
        frames.append(pd.DataFrame(frame))
    share_axis(axes[0], ylabel="share of all heads")
    for ax in axes:
        label_ends(ax, ends[ax], fontsize="x-small")
    return drawn(fig, "F3_panel", *words("F3_panel", said, interval=INTERVAL), pd.concat(frames))


def recall_curves(runs):
    """F4: recall of the final circuit against the share of training done."""
    fig, ax = plt.subplots(figsize=(WIDTH, 3.6), layout="constrained")
    frames, said, ends, firsts = [], [], [], []
    for colour, run in zip(MODEL_COLOURS, runs):
        label = run.spec.label
        curve = findings.circuit_recall(run.trajectory, run.counting)
        lower = findings.circuit_recall(run.trajectory, run.counting, run.counting.thresholds.classify)
        _, low, high = with_interval(run.trajectory, recall_of, run.counting)
        trained = (curve["training"] > 0).to_numpy()
        x = curve["training"][trained]
        firsts.append(x.min())
        ax.plot(x, curve["recall"][trained], "-o", color=colour)
        ax.plot(x, lower["recall"][trained], "--", color=colour, lw=1)
        shade(ax, x, (low[trained], high[trained]), colour)
        before = curve.iloc[-2]  # all of them end at 1: they are told apart a revision earlier
        ends.append((before["training"], before["recall"], label, colour))
        reached = curve.loc[curve["recall"] >= findings.RECALL - 1e-9, "training"]
        when = f"after {percent(reached.iloc[0])} of training" if len(reached) else "never reached"
        said.append({"label": label, "n": curve["shared"].iloc[-1], "when": when})
        frames.append(curve.assign(model=run.model, recall_low=low, recall_high=high, recall_at_30x=lower["recall"]))
    recall_against_training(ax, min(firsts), findings.EARLY, findings.RECALL, ends)
    ax.xaxis.set_major_formatter(PercentFormatter(1))
    return drawn(fig, "F4_panel", *words("F4_panel", said, interval=INTERVAL), pd.concat(frames))


def pr_planes(runs):
    """F5: the selectivity-PR plane of each model at its last revision."""
    fig, (axes,) = plots(1, len(runs), 3.2, _labels(runs))
    frames, said = [], []
    for ax, run in zip(axes, runs):
        trajectory = run.trajectory
        inside = findings.in_circuit(trajectory, run.counting)[-1]
        pr_plane(ax, trajectory, inside, run.counting, run.baseline_ceiling)
        ax.set_xlabel("induction selectivity")
        leads = findings.spectral_leads(trajectory, run.counting)[inside]
        said.append({"label": run.spec.label, "n": len(leads), "elevated": leads["elevated"].notna().sum()})
        frames.append(leads.assign(model=run.model))
    axes[0].set_ylabel("participation ratio of z")
    return drawn(fig, "F5_panel", *words("F5_panel", said), pd.concat(frames))


PANEL_FIGURES = {"F1": bos_by_layer, "F2": bos_curves, "F3": order_of_emergence, "F4": recall_curves, "F5": pr_planes}


def separations(runs, group="all layers"):
    """F5's null: how well PR and selectivity tell circuit heads from controls, one plot a model."""
    fig, (axes,) = plots(1, len(runs), 2.9, _labels(runs), sharey=True)
    frames, answers = [], []
    for ax, run in zip(axes, runs):
        x = training_axis(ax, run.trajectory.tokens, "tokens")
        ax.axhline(0.5, **DASHED)
        curves = run.separation
        curve = curves[curves["controls"] == group] if len(curves) else curves
        if curve.empty:
            answers.append(say("F5_controls", "nothing", label=run.spec.label))
            continue
        for name, label, colour in (("selectivity", "induction selectivity", BLUE), ("pr", "PR", PALETTE[3])):
            ax.plot(x, curve[name], "-o", ms=4, color=colour, label=label)
            shade(ax, x, (curve[f"{name}_low"], curve[f"{name}_high"]), colour)
        answers.append(f"{run.spec.label}: {findings.pr_tells_first(curves, group)}.")
        frames.append(curves.assign(model=run.model))
    axes[0].set(ylabel="area under the ROC curve", ylim=(-0.03, 1.03))
    if frames:
        fig.legend(*axes[0].get_legend_handles_labels(), fontsize="x-small", loc="outside upper center", ncol=2)
    others = [~findings.in_circuit(run.trajectory, run.counting).any(axis=0) for run in runs]
    controls = ", ".join(str(mask.sum()) for mask in others)
    said = words("F5_controls", answers=" ".join(answers), controls=controls)
    data = pd.concat(frames) if frames else pd.DataFrame({"model": [run.model for run in runs]})
    return drawn(fig, "F5_controls", *said, data)


def sensitivities(runs, by_model):
    """What the verdicts of one finding rest on: a strip a model and threshold.  by_model: {model label: Finding}."""
    some = next(iter(by_model.values()))
    n_swept, n_countings = some.sweeps["swept"].nunique(), some.sweeps["counting"].nunique()
    fig, axes = plots(n_swept, len(runs), n_swept * (0.75 + 0.24 * n_countings), by_model, sharey=True)
    frames = []
    for column, run, finding in zip(axes.T, runs, by_model.values()):
        strips(column, finding, run.panel.thresholds, "x")
        frames.append(finding.sweeps.assign(model=run.model))
    return drawn(fig, f"{some.id}_assumptions", *strip_words(by_model), pd.concat(frames))


def checks(runs):
    """The screen against the independent checks, every head of every checkpoint of a panel."""
    fig, (axes,) = plots(1, 2, 3.5)
    thresholds = runs[0].panel.thresholds
    plotted = {
        "induction": ("Induction", "prefix-matching score", thresholds.induction_circuit, findings.PREFIX_MATCHING),
        "first_token": ("First token", "sink mass", thresholds.classify, findings.SINK_MASS),
    }
    said, columns = [], ["revision", "layer", "head"]
    for ax, (cls, (title, ylabel, threshold, level)) in zip(axes, plotted.items()):
        screened, checked, mask = findings.CHECKS[cls]
        columns += [screened, checked]
        agree = []
        for colour, run in zip(MODEL_COLOURS, runs):
            heads, dots = run.heads, {"s": 10, "lw": 0, "alpha": 0.5, "color": colour, "label": run.spec.label}
            ax.scatter(heads[screened].clip(lower=0.1), heads[checked], **dots)
            agree.extend(mask(heads, run.counting) == mask(heads, replace(run.counting, by="mass")))
        ax.axvline(threshold, **DASHED)
        ax.axhline(level, **DASHED)
        ax.set(xscale="log", ylim=(-0.03, 1.03), title=title, ylabel=ylabel)
        ax.set_xlabel(f"{cls.replace('_', '-')} selectivity (times the baseline)")
        said.append({"what": title.lower(), "agree": sum(agree), "n": len(agree)})
    axes[0].legend(fontsize="x-small", frameon=True, loc="upper left")
    data = pd.concat([run.heads[columns].assign(model=run.model) for run in runs])
    return drawn(fig, "crosschecks", *words("crosschecks", said), data)
