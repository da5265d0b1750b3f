"""The published figures of the paper put through the same rules as our own measurements."""

import numpy as np

from lib import findings
from lib.paper.published import CIRCUIT, MODELS, counts_of, curve_of, leads, recall


def published_judgements(id, published):
    """What a finding's rule says of the paper's own models: {model: (verdict, gist)}.

    With what the tables hold: induction heads by layer are counted from 30x (F3), and
    PR is known of 16 heads only (F5, with "elevated" against the listed heads).
    """
    return {model: JUDGE[id](published, model) for model in MODELS}


def _f1(published, model):
    return findings.F1.floor_rule(counts_of(published, model).to_numpy())


def _f2(published, model):
    fractions = curve_of(published, model)["bos_fraction"].to_numpy()
    return findings.F2.shape_rule(fractions, findings.F2.CLAIMED_SHAPE[model], is_last=True)


def _f3(published, model):
    curve = curve_of(published, model)
    verdict, gist, _, _ = findings.F3.order_rule(
        curve["induction_heads_at_30x"], curve["bos_fraction"], curve["tokens"].to_numpy()
    )
    return verdict, gist


def _f4(published, model):
    rows = recall(published, CIRCUIT).query("model == @model")
    verdict, gist, _ = findings.F4.recall_rule(rows["shared"], int(rows["final"].iloc[0]), rows["training"].to_numpy())
    return verdict, gist


def _f5(published, model):
    rows = leads(published).query("model == @model and rule == 'start'")
    elevated, crossed = (rows[c].fillna(-1).astype(int).to_numpy() for c in ("elevated_step", "crossed_step"))
    verdict, gist, _, _ = findings.F5.lead_rule(elevated, np.asarray(crossed), attainable=True)
    return verdict, gist


JUDGE = {"F1": _f1, "F2": _f2, "F3": _f3, "F4": _f4, "F5": _f5}
