"""The published 1B panel: refused when wrong, and recomputed numbers pinned."""

import re
import shutil
from dataclasses import replace

import pandas as pd
import pytest

from lib.figures.of_paper import PUBLISHED_FIGURES
from lib.paper import published as p

PYTHIA, OLMO, OLMOE = "pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924"
COUNTS, SELECTIVITY, PR = (f"published_{name}.csv" for name in ("layer_counts", "selectivity", "pr"))


@pytest.fixture(scope="module")
def published():
    return p.load()


# Reading ----------------------------------------------------------------------------


def test_the_tables_are_complete(published):
    assert [len(f) for f in (published.layer_counts, published.selectivity, published.pr)] == [480, 160, 160]
    assert published.layer_counts["tokens"].iloc[0] == 2_097_152
    assert published.pr["name"].nunique() == 15  # L7H0 is listed of two models
    assert published.layer_counts["tokens"].dtype == "int64"


def edited(tmp_path, file, edit):
    """A copy of the tables in which the lines of one file went through `edit` (a list of lines, changed in place)."""
    folder = tmp_path / "published"
    shutil.copytree(p.DATA, folder)
    lines = (folder / file).read_text().splitlines()
    edit(lines)
    (folder / file).write_text("\n".join(lines) + "\n")
    return folder


def cell(row, column, text):
    """An edit: put a text into a cell, row counted as in the file (1 is the header), column from 0."""

    def edit(lines):
        cells = lines[row - 1].split(",")
        cells[column] = text
        lines[row - 1] = ",".join(cells)

    return edit


def drop(first, last):
    """An edit: leave out rows first to last."""

    def edit(lines):
        del lines[first - 1 : last]

    return edit


def repeat(row):
    """An edit: a row twice."""
    return lambda lines: lines.insert(row, lines[row - 1])


BAD = {
    "header": (COUNTS, cell(1, 2, "tokens"), "row 1, column 3 of the header", ["tokens", "tokens_billion"]),
    "header too short": (PR, cell(1, 4, "pr,extra"), "row 1, column 6 of the header", ["extra", "nothing"]),
    "missing revision": (COUNTS, drop(18, 33), "row 18, column revision", ["'step16'", "'step4'", "missing"]),
    "missing last revision": (COUNTS, drop(466, 481), "row 466, column model", ["end of the file", "step1220000"]),
    "missing revision of heads": (SELECTIVITY, drop(52, 56), "row 52, column revision", ["'step2000-tokens4B'", "'step1000"]),
    "missing head": (PR, drop(4, 4), "row 4, column layer", ["'7'", "'4'", "missing"]),
    "unknown revision": (COUNTS, cell(2, 1, "step8"), "row 2, column revision", ["'step8'", "'step1'", "Nearest"]),
    "unknown model": (PR, cell(2, 0, "pythia-2b"), "row 2, column model", ["'pythia-2b'", "Nearest: pythia-1b"]),
    "unknown head": (SELECTIVITY, cell(2, 3, "6"), "row 2, column head", ["'6'", "'5'"]),
    "repeated row": (COUNTS, repeat(5), "row 6, column layer", ["pythia-1b step1 3 again", "once"]),
    "row after the last": (PR, lambda lines: lines.append("x,y,0,0,2"), "row 162, column head", ["x y 0 0", "160 rows"]),
    "too few cells": (PR, lambda lines: lines.__setitem__(2, "pythia-1b,step1,4,1"), "row 3, column pr", ["4 cells", "5"]),
    "no number": (PR, cell(7, 4, "high"), "row 7, column pr", ["'high'", "finite number"]),
    "not finite": (SELECTIVITY, cell(9, 4, "nan"), "row 9, column induction", ["'nan'", "finite"]),
    "infinite": (SELECTIVITY, cell(9, 8, "inf"), "row 9, column self", ["'inf'", "finite"]),
    "negative": (SELECTIVITY, cell(9, 9, "-1"), "row 9, column local", ["'-1'", "0 or more"]),
    "pr below 1": (PR, cell(9, 4, "0.5"), "row 9, column pr", ["'0.5'", "1 or more"]),
    "half a head": (COUNTS, cell(9, 5, "1.5"), "row 9, column bos_heads_at_30x", ["'1.5'", "whole number"]),
    "more heads than there are": (COUNTS, cell(9, 6, "9"), "row 9, column induction_heads_at_30x", ["found 9", "heads_in_layer, 8"]),
    "wrong heads in a layer": (COUNTS, cell(9, 4, "16"), "row 9, column heads_in_layer", ["found 16", "expected 8"]),
    "tokens within a revision": (COUNTS, cell(20, 2, "0.009"), "row 20, column tokens_billion", ["0.009", "0.00838861"]),
    "tokens that fall": (COUNTS, lambda lines: [cell(r, 2, "0.001")(lines) for r in range(18, 34)], "row 18, column tokens_billion", ["0.001", "more than"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_wrong_table_is_refused_with_file_row_and_column(kind, tmp_path):
    file, edit, place, words = BAD[kind]
    with pytest.raises(p.PublishedError) as error:
        p.load(edited(tmp_path, file, edit))
    message = str(error.value)
    assert message.startswith(f"{file}, {place}: found "), message
    assert all(word in message for word in [*words, "expected"]), message


def test_a_missing_file_and_an_empty_one_are_refused(tmp_path):
    with pytest.raises(p.PublishedError, match=f"{COUNTS}: cannot be read"):
        p.load(tmp_path)
    with pytest.raises(p.PublishedError, match=f"{PR}, row 1, column 1 of the header: found nothing; expected model"):
        p.load(edited(tmp_path, PR, lambda lines: lines.clear() or lines.append("")))


# F1 to F3 ---------------------------------------------------------------------------

FRACTIONS = {  # BOS heads over all heads, by revision
    PYTHIA: [0, 0, 0, 0, 0, 0, 14 / 128, 38 / 128, 59 / 128, 74 / 128],
    OLMO: [0, 0, 1 / 256, 0, 0, 19 / 256, 180 / 256, 199 / 256, 207 / 256, 207 / 256],
    OLMOE: [n / 256 for n in (9, 40, 108, 111, 130, 179, 183, 187, 190, 194)],
}
INDUCTION_30X = {
    PYTHIA: [0, 0, 0, 0, 0, 0, 6, 6, 6, 6], OLMO: [0, 0, 3, 3, 3, 3, 3, 4, 4, 3], OLMOE: [6, 7, 6, 6, 6, 5, 5, 4, 4, 4],
}  # fmt: skip
LISTED_50X = {
    PYTHIA: [0, 0, 0, 0, 0, 0, 2, 2, 3, 3], OLMO: [0, 0, 1, 2, 2, 2, 2, 2, 2, 3], OLMOE: [2, 2, 3, 3, 3, 3, 3, 4, 4, 4],
}  # fmt: skip
MOST_50X = {
    PYTHIA: [0, 0, 0, 0, 0, 0, 6, 5, 6, 3], OLMO: [0, 0, 2, 3, 3, 3, 3, 3, 3, 3], OLMOE: [6, 6, 6, 6, 6, 4, 4, 4, 4, 4],
}  # fmt: skip


@pytest.mark.parametrize("model", p.MODELS)
def test_curves(published, model):
    curve = p.curves(published).query("model == @model")
    assert curve["bos_fraction"].to_list() == pytest.approx(FRACTIONS[model])
    assert curve["induction_heads_at_30x"].to_list() == INDUCTION_30X[model]
    assert curve["induction_heads_at_50x"].to_list() == LISTED_50X[model]
    assert curve["induction_heads_at_50x_most"].to_list() == MOST_50X[model]
    assert (curve["induction_heads_at_50x"] <= curve["induction_heads_at_50x_most"]).all()


def test_counts_by_layer(published):
    rows = p.bos_by_layer(published)
    assert list(rows.columns) == "model revision step tokens layer heads bos_heads induction_heads_at_30x".split()
    assert rows.query("layer < 2")["bos_heads"].max() == 0 and rows["bos_heads"].sum() == 185 + 813 + 1331
    last = rows.query("step == 9").groupby("model")["bos_heads"].agg(list)
    assert last[PYTHIA] == [0, 0, 0, 0, 8, 7, 7, 6, 7, 7, 7, 7, 5, 4, 4, 5]
    assert last[OLMO] == [0, 0, 14, 16, 16, 15, 16, 16, 15, 16, 16, 15, 15, 16, 14, 7]
    assert last[OLMOE] == [0, 0, 10, 13, 14, 13, 15, 14, 14, 15, 15, 16, 14, 16, 15, 10]
    one = rows[(rows["revision"] == "step5000-tokens10B") & (rows["bos_heads"] > 0)]
    assert one[["layer", "bos_heads"]].to_numpy().tolist() == [[4, 1]]


MILESTONES = {  # step of the first revision, None if never
    PYTHIA: {"induction_3_at_30x": 6, "induction_5_at_30x": 6, "induction_3_at_50x": 8, "bos_10": 6, "bos_30": 8, "bos_50": 9, "bos_70": None},
    OLMO: {"induction_3_at_30x": 2, "induction_5_at_30x": None, "induction_3_at_50x": 9, "bos_10": 6, "bos_30": 6, "bos_50": 6, "bos_70": 6},
    OLMOE: {"induction_3_at_30x": 0, "induction_5_at_30x": 0, "induction_3_at_50x": 2, "bos_10": 1, "bos_30": 2, "bos_50": 4, "bos_70": 6},
}  # fmt: skip


def test_milestones(published):
    met = p.milestones(published)
    found = {
        m: {r.key: None if pd.isna(r.step) else int(r.step) for r in g.itertuples()} for m, g in met.groupby("model")
    }
    assert found == MILESTONES
    assert met.query("model == @OLMO and key == 'bos_50'")["tokens"].item() == 264_000_000_000
    never = met.query("model == @PYTHIA and key == 'bos_70'")
    assert never["revision"].isna().item() and never["tokens"].isna().item()


def test_gaps(published):
    gaps = p.gaps(published).set_index(["model", "criterion"])
    assert gaps["gap"].to_list() == pytest.approx([143 / 3, 143 / 38, 26.4, 264 / 3048, 20.95, 419 / 104])
    assert gaps["at_least"].to_list() == [False, True, False, True, True, True]


def test_gaps_and_milestones_that_are_never_met(published):
    none = replace(published, layer_counts=published.layer_counts.assign(bos_heads_at_30x=0, induction_heads_at_30x=0))
    assert (
        p.gaps(none)["gap"].isna().all()
        and p.milestones(none).query("key != 'induction_3_at_50x'")["tokens"].isna().all()
    )


# F4 ---------------------------------------------------------------------------------

SHARED_30X = {
    PYTHIA: [0, 0, 0, 0, 0, 0, 2, 3, 3, 3], OLMO: [0, 0, 2, 2, 2, 2, 2, 3, 3, 3], OLMOE: [2, 3, 3, 3, 3, 4, 4, 4, 4, 4],
}  # fmt: skip
FINAL = {
    PYTHIA: ["L4H4", "L7H0", "L7H1"],
    OLMO: ["L2H11", "L4H12", "L12H8"],
    OLMOE: ["L5H10", "L7H0", "L9H8", "L12H14"],
}


@pytest.mark.parametrize("model", p.MODELS)
def test_recall(published, model):
    assert p.final_circuit(published).query("model == @model")["name"].to_list() == FINAL[model]
    for threshold, shared in ((50, LISTED_50X[model]), (30, SHARED_30X[model])):
        rows = p.recall(published, threshold).query("model == @model")
        assert rows["shared"].to_list() == shared and set(rows["final"]) == {len(FINAL[model])}
        assert rows["recall"].to_list() == pytest.approx([n / len(FINAL[model]) for n in shared])
    assert rows["training"].iloc[-1] == 1 and rows["training"].is_monotonic_increasing


def test_share_of_training_at_two_thirds(published):
    def first(threshold):
        rows = p.recall(published, threshold).query("recall > 0.66")
        return rows.groupby("model", sort=False)["training"].first().to_list()

    assert first(50) == pytest.approx([3000 / 143000, 23 / 3048, 104 / 5117])
    assert first(30) == pytest.approx([3000 / 143000, 10 / 3048, 41 / 5117])


# F5 ---------------------------------------------------------------------------------

LEADS = {  # (elevated, crossed) steps by rule
    (PYTHIA, "L4H4"): {"start": (4, 6), "own": (4, 6), "peers": (2, 6)},
    (PYTHIA, "L7H0"): {"start": (4, 8), "own": (4, 8), "peers": (0, 8)},
    (PYTHIA, "L7H1"): {"start": (4, 6), "own": (4, 6), "peers": (0, 6)},
    (OLMO, "L2H11"): {"start": (2, 2), "own": (2, 2), "peers": (0, 2)},
    (OLMO, "L4H12"): {"start": (3, 3), "own": (3, 3), "peers": (0, 3)},
    (OLMO, "L12H8"): {"start": (2, 9), "own": (2, 9), "peers": (2, 9)},
    (OLMOE, "L5H10"): {"start": (None, 0), "own": (2, 0), "peers": (None, 0)},
    (OLMOE, "L7H0"): {"start": (None, 0), "own": (None, 0), "peers": (0, 0)},
    (OLMOE, "L9H8"): {"start": (None, 2), "own": (None, 2), "peers": (6, 2)},
    (OLMOE, "L12H14"): {"start": (None, 7), "own": (None, 7), "peers": (9, 7)},
}


def test_leads(published):
    leads = p.leads(published)
    found = {}
    for r in leads.itertuples():
        steps = tuple(None if pd.isna(s) else int(s) for s in (r.elevated_step, r.crossed_step))
        found.setdefault((r.model, r.name), {})[r.rule] = steps
        if r.left_censored or None in steps:
            assert pd.isna(r.lead) and pd.isna(r.lead_tokens)
        else:
            assert r.lead == steps[1] - steps[0] and r.lead_tokens == pytest.approx(
                r.crossed_tokens / r.elevated_tokens
            )
        assert r.left_censored == (steps[1] == 0) and r.pr_from_start == (steps[0] == 0)
    assert found == LEADS
    rows = leads.query("model == @PYTHIA and name == 'L4H4' and rule == 'start'")
    assert rows["lead_tokens"].item() == pytest.approx(3000 / 256)


def test_levels_of_the_rule_start(published):
    levels = [p.start_level(published, model) for model in p.MODELS]
    assert levels == pytest.approx([3.9217, 20.9581, 79.6197], abs=1e-4)


def test_leads_of_heads_outside_the_circuit(published):
    null = p.null_leads(published)
    led = {(r.name, r.rule): (r.led, r.crossings) for r in null.itertuples()}
    assert [led[("L3H5", rule)] for rule in p.RULES] == [(3, 3)] * 3
    assert [led[("L6H12", rule)] for rule in p.RULES] == [(1, 3), (1, 3), (0, 3)]
    assert [led[("L8H10", rule)] for rule in p.RULES] == [(0, 2), (0, 2), (2, 2)]
    assert null.groupby("rule", sort=False)["led"].sum().to_list() == [8, 9, 10] and null["crossings"].sum() == 48
    best = null.drop_duplicates("name").set_index("name")["best_class"].to_dict()
    assert {k for k, v in best.items() if v == "previous_token"} == {"L3H5", "L11H10", "L8H10"}
    assert {k for k, v in best.items() if v == "first_token"} == {"L4H1", "L6H12", "L11H11"}


# Figures ----------------------------------------------------------------------------


@pytest.mark.parametrize("id", PUBLISHED_FIGURES)
def test_figures_say_what_they_show(published, id):
    figure = PUBLISHED_FIGURES[id](published)
    assert "redrawn" in figure.caption and figure.name == f"{id}_published" and len(figure.data)
    assert re.search(r"\d", figure.alt) and all(label in figure.alt for label in p.MODELS.values())
    assert "nan" not in figure.alt and figure.svg.lstrip().startswith("<?xml")


def test_figures_say_the_numbers(published):
    alts = {id: draw(published).alt for id, draw in PUBLISHED_FIGURES.items() if id in ("F2", "F4")}
    assert "OLMo 1B goes from 0 % to 80.9 %, its largest step 62.9 points at 264B" in alts["F2"]
    assert "OLMo 1B, final circuit of 3: two thirds after 0.75 % of training at 50x, 0.33 % at 30x" in alts["F4"]
