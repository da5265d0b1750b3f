"""Checks of what the paper states about the participation ratio and its lead over selectivity (F5)."""

import pandas as pd

from lib import formatting as w
from lib.paper import published as p
from lib.paper.comparing import (
    AGREES,
    DISAGREES,
    PYTHIA,
    SHORT,
    UNCHECKED,
    billions,
    check,
    last_rows,
    leads,
    listed,
    matches,
    null_leads,
    verdict,
)


@check
def head_as_printed(published, model, name, printed):
    """printed: [tokens in billions, PR, selectivity], revision by revision."""
    selectivity, pr = listed(published, model, name)
    wrong = [
        f"{what} at {tokens}B: {found:.4g}, printed {text}"
        for step, (tokens, *cells) in enumerate(printed)
        for what, found, text in zip(
            ("PR", "selectivity"), (pr.loc[step, "pr"], selectivity.loc[step, "induction"]), cells
        )
        if not matches(found, text)
    ]
    return verdict(not wrong), {"equal": 2 * len(printed) - len(wrong), "n": 2 * len(printed), "wrong": wrong}


@check
def strongest_head(published, model, name):
    last = last_rows(published.selectivity).query("model == @model").set_index("name")["induction"]
    second = last.nlargest(2)
    return verdict(last.idxmax() == name), {
        "top": f"{last.idxmax()}, {last.max():.1f}x", "second": f"{second.index[1]} with {second.iloc[1]:.1f}x",
    }  # fmt: skip


@check
def pr_rises_between(published, model, name, steps, printed):
    """steps: of the panel, from 0.  printed: the ratio of the two PR."""
    pr = listed(published, model, name)[1]["pr"]
    low, high = (pr[step] for step in steps)
    return verdict(matches(high / low, printed)), {
        "low": f"{low:.2f}",
        "high": f"{high:.2f}",
        "ratio": f"{high / low:.1f}x",
    }


@check
def pr_is_highest(published, model, name, tokens, pr, step, below):
    """tokens, pr: printed, where PR is highest.  step, below: selectivity is under that there."""
    selectivity, rows = listed(published, model, name)
    top = rows.loc[rows["pr"].idxmax()]
    before = selectivity.loc[step, "induction"]
    ok = matches(top["tokens"] / 1e9, tokens) and matches(top["pr"], pr) and before < below
    return verdict(ok), {"pr": f"{top['pr']:.1f}", "at": billions(top["tokens"]), "before": f"{before:.2f}x"}


@check
def lead_in_tokens(published, model, name, printed):
    rows = leads(published).query("model == @model and name == @name").set_index("rule")
    row = rows.loc["start"]
    return verdict(matches(row.lead_tokens, printed)), {
        "found": f"{row.lead_tokens:.1f}x ({billions(row.elevated_tokens)} against {billions(row.crossed_tokens)})",
        "others": "; ".join(f"{rule} {rows.loc[rule, 'lead_tokens']:.3g}x" for rule in ("own", "peers")),
    }


def by_rule(rows, holds):
    """Verdict over the three rules of "elevated", and in how many heads each holds; split rules cannot decide.

    Returns (verdict, {rule: failing rows}, "start 2 of 3, own ...").
    """
    failing = {rule: rows[(rows["rule"] == rule) & ~holds] for rule in p.RULES}
    fails = [len(f) > 0 for f in failing.values()]
    n = len(rows) // len(p.RULES)
    counts = ", ".join(f"{rule} {n - len(f)} of {n}" for rule, f in failing.items())
    return (DISAGREES if all(fails) else UNCHECKED if any(fails) else AGREES), failing, counts


@check
def elevated_by_the_crossing(published, models):
    rows = leads(published)
    rows = rows[rows["model"].isin(models)]
    readable = rows[~rows["left_censored"]]
    decided, failing, counts = by_rule(readable, (readable["lead"] >= 0).fillna(False).astype(bool))
    censored = rows[rows["left_censored"] & (rows["rule"] == "start")]
    names = [f"{SHORT[m]} {name}" for m, name in zip(censored["model"], censored["name"])]
    heads = list(dict.fromkeys(key for f in failing.values() for key in zip(f["model"], f["name"])))
    late, starts = [], []
    for model, name in heads:
        pr = listed(published, model, name)[1]["pr"]
        at = int(rows.loc[(rows["model"] == model) & (rows["name"] == name), "crossed_step"].iloc[0])
        starts.append(pr[0])
        late.append(f"{SHORT[model]} {name} has PR {pr[0]:.1f} at the first revision and {pr[at]:.1f} at the crossing.")
    facts = {"counts": counts, "censored": w.join(names) if names else "", "n_censored": len(names), "late": late}
    if late:
        null = null_leads(published).query("rule == 'start'")
        others = [key for key in zip(null["model"], null["name"]) if key[0] in dict(heads)]
        high = {f"{SHORT[m]} {name}": listed(published, m, name)[1]["pr"][0] for m, name in others}
        high = [f"{name} ({value:.0f})" for name, value in high.items() if value >= min(starts)]
        facts |= {"level": f"{min(starts):.0f}", "high": w.join(high) if high else ""}
    return decided, facts


@check
def lead_lies_between(published, low, high, best_class=None):
    """Leads in revisions: of the final circuits' heads, or of the listed heads whose highest class is best_class."""
    rows = leads(published)
    if best_class is not None:
        null = null_leads(published).query("rule == 'start' and best_class == @best_class")
        threshold = {"previous_token": p.PREVIOUS_TOKEN_CIRCUIT, "first_token": p.CLASSIFY}[best_class]
        rows = p.event_leads(published, list(zip(null["model"], null["name"])), best_class, threshold)
    readable = rows[~rows["left_censored"]]
    decided, _, counts = by_rule(
        readable, ((readable["lead"] >= low) & (readable["lead"] <= high)).fillna(False).astype(bool)
    )
    said = [
        f"{SHORT[row['model']]} {row['name']} "
        + ("censored" if row["left_censored"] else "none" if pd.isna(row["lead"]) else str(row["lead"]))
        for _, row in rows[rows["rule"] == "start"].iterrows()
    ]
    return decided, {"leads": ", ".join(said), "counts": counts}


@check
def goes_with_circuits(published):
    rules = ", ".join(
        f"{rule} {int(rows['led'].sum())} of {int(rows['crossings'].sum())}"
        for rule, rows in null_leads(published).groupby("rule", sort=False)
    )
    level = p.start_level(published, PYTHIA)
    others = published.pr[(published.pr["step"] == 0) & (published.pr["model"] != PYTHIA)]
    above = int((others["pr"] >= level).sum())
    return UNCHECKED, {"rules": rules, "level": f"{level:.1f}", "n": len(others), "above": above}
