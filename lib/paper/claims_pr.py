"""Checks of the paper's claims on the participation ratio and its lead over selectivity (F5)."""

from lib.paper.comparing import matches
from lib.paper.published import RULES, SHORT, event_leads, head_rows, last_revision, leads, null_leads, start_level

# The worked example


def printed_head(published, model, head, printed):
    """PR and induction selectivity of a head; printed: [tokens in billions, PR, selectivity] a revision."""
    pr = head_rows(published.pr, model, head)["pr"]
    selectivity = head_rows(published.selectivity, model, head)["induction"]
    wrong = [
        f"{what} at {tokens}B: {found[step]:.4g}, printed {cell}"
        for step, (tokens, *cells) in enumerate(printed)
        for what, found, cell in zip(("PR", "selectivity"), (pr, selectivity), cells)
        if not matches(found[step], cell)
    ]
    return not wrong, {"n": 2 * len(printed), "wrong": wrong}


def most_selective(published, model, head):
    """Whether a head has the highest final induction selectivity of its model's listed heads."""
    last = last_revision(published.selectivity).query("model == @model").set_index("name")["induction"]
    first, second = last.nlargest(2).items()
    return first[0] == head, {"first": first, "second": second}


def pr_rises(published, model, head, steps, printed):
    """How many times a head's PR grows from one step to another."""
    before, after = head_rows(published.pr, model, head)["pr"][steps]
    return matches(after / before, printed), {"before": before, "after": after}


def pr_peaks(published, model, head, printed, before, below):
    """Where a head's PR is highest, and whether its selectivity is below a number at the step `before`."""
    pr = head_rows(published.pr, model, head)
    top = pr.loc[pr["pr"].idxmax()]
    early = head_rows(published.selectivity, model, head).loc[before, "induction"]
    agrees = matches(top["tokens"] / 1e9, printed["tokens"]) and matches(top["pr"], printed["pr"]) and early < below
    return agrees, {"pr": top["pr"], "tokens": top["tokens"], "selectivity": early}


def lead_in_tokens(published, model, head, printed):
    """How many times as many tokens selectivity takes as PR, by the rule `start`; the other rules are told."""
    rows = leads(published).query("model == @model and name == @head").set_index("rule")
    row, lead = rows.loc["start"], rows["lead_tokens"]
    found = {"lead": lead["start"], "elevated": row["elevated_tokens"], "crossed": row["crossed_tokens"]}
    return matches(lead["start"], printed), found | {"own": lead["own"], "peers": lead["peers"]}


# All heads


def _by_rule(rows, holds):
    """Whether a statement holds of all rows by every rule of "elevated": (agrees, {rule: rows of which it holds}).

    False if it fails by every rule; rules that differ cannot decide.
    """
    failing = {rule: int(((rows["rule"] == rule) & ~holds).sum()) for rule in RULES}
    readable = len(rows) // len(RULES)
    agrees = False if all(failing.values()) else None if any(failing.values()) else True
    return agrees, {"readable": readable, "counts": {rule: readable - n for rule, n in failing.items()}}


def _label(model, name):
    return f"{SHORT[model]} {name}"


def elevated_at_or_before(published, models):
    """Whether PR is elevated at or before the crossing of 50x, for every circuit head of some models.

    late: heads of which it fails by some rule, with their PR at the first revision and at the crossing.  high: listed
    heads outside the circuits of these models that start with a PR as high.
    """
    rows = leads(published)
    rows = rows[rows["model"].isin(models)]
    readable = rows[~rows["left_censored"]]
    holds = (readable["lead"] >= 0).fillna(False).astype(bool)
    agrees, found = _by_rule(readable, holds)
    failing, late = readable[~holds], []
    for row in failing.sort_values("rule", key=lambda rule: rule.map(list(RULES).index), kind="stable").itertuples():
        pr = head_rows(published.pr, row.model, row.name)["pr"]
        head = {"label": _label(row.model, row.name), "start": pr[0], "crossing": pr[row.crossed_step]}
        if head not in late:
            late.append(head)
    high = []
    for row in null_leads(published).query("rule == 'start'").itertuples():
        start = head_rows(published.pr, row.model, row.name)["pr"][0]
        if row.model in set(failing["model"]) and start >= min(head["start"] for head in late):
            high.append(f"{_label(row.model, row.name)} ({start:.0f})")
    censored = rows[rows["left_censored"] & (rows["rule"] == "start")]
    censored = list(map(_label, censored["model"], censored["name"]))
    return agrees, found | {"censored": censored, "late": late, "high": high}


def lead_in_revisions(published, low, high, best_class=None, past=None):
    """Whether PR leads by low to high revisions.

    Of the circuit heads over 50x induction or, with best_class, of the listed heads outside the circuits whose highest
    class it is, over the selectivity `past` of that class.
    """
    rows = leads(published)
    if best_class:
        others = null_leads(published).query("rule == 'start' and best_class == @best_class")
        rows = event_leads(published, list(zip(others["model"], others["name"])), best_class, past)
    readable = rows[~rows["left_censored"]]
    agrees, found = _by_rule(readable, readable["lead"].between(low, high).fillna(False).astype(bool))
    start = rows[rows["rule"] == "start"]
    said = start["lead"].astype("string").fillna("none").mask(start["left_censored"], "censored")
    told = [f"{_label(*head)} {lead}" for *head, lead in zip(start["model"], start["name"], said)]
    return agrees, found | {"leads": told}


def rise_outside_circuits(published, model):
    """Leads of the listed heads outside the circuits, and how many of the other models' heads start above a model's level."""
    led = null_leads(published).groupby("rule", sort=False)[["led", "crossings"]].sum().reset_index()
    level = start_level(published, model)
    others = published.pr[(published.pr["step"] == 0) & (published.pr["model"] != model)]
    found = {"led": list(led.itertuples()), "level": level}
    return None, found | {"others": len(others), "above": int((others["pr"] >= level).sum())}
