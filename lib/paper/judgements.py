"""The published figures of the paper put through the same rules as our own measurements."""

import numpy as np

from lib.findings import CLAIMED_SHAPE, floor_rule, lead_rule, order_rule, recall_rule, shape_rule
from lib.paper import published as p


def published_judgements(id, published):
    """What a finding's rule says of the paper's own models: {model: (verdict, gist)}.

    With what the tables hold: induction heads by layer are counted from 30x (F3), and
    PR is known of 16 heads only (F5, with "elevated" against the listed heads).
    """
    return {model: JUDGE[id](published, model) for model in p.MODELS}


def _f1(published, model):
    counts = p.bos_by_layer(published)
    counts = counts[counts["model"] == model].pivot(index="step", columns="layer", values="bos_heads")
    return floor_rule(counts.to_numpy())


def _f2(published, model):
    return shape_rule(_curve(published, model)["bos_fraction"].to_numpy(), CLAIMED_SHAPE[model], is_last=True)


def _f3(published, model):
    curve = _curve(published, model)
    verdict, gist, _, _ = order_rule(curve["induction_heads_at_30x"], curve["bos_fraction"], curve["tokens"].to_numpy())
    return verdict, gist


def _f4(published, model):
    recall = p.recall(published, p.CIRCUIT)
    recall = recall[recall["model"] == model]
    verdict, gist, _ = recall_rule(recall["shared"], int(recall["final"].iloc[0]), recall["training"].to_numpy())
    return verdict, gist


def _f5(published, model):
    leads = p.leads(published)
    leads = leads[(leads["model"] == model) & (leads["rule"] == "start")]
    elevated, crossed = (leads[c].fillna(-1).astype(int).to_numpy() for c in ("elevated_step", "crossed_step"))
    verdict, gist, _, _ = lead_rule(elevated, np.asarray(crossed), attainable=True)
    return verdict, gist


JUDGE = {"F1": _f1, "F2": _f2, "F3": _f3, "F4": _f4, "F5": _f5}


def _curve(published, model):
    curves = p.curves(published)
    return curves[curves["model"] == model]
