"""The ledger: claims that are data, each with its check, and verdicts that are computed."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import yaml

from lib.paper import ledger
from lib.paper import published as p
from lib.paper.comparing import matches
from lib.report.finding_pages import ledger as page_of

PYTHIA, OLMO, OLMOE = "pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924"


@pytest.fixture(scope="module")
def published():
    return p.load()


@pytest.fixture(scope="module")
def entries(published):
    return ledger.entries(published).set_index("id")


# The claims as data


def test_every_claim_has_its_check_and_every_check_a_claim():
    assert {claim.check for claim in ledger.claims()} == set(ledger.CHECKS)
    content = yaml.safe_load(ledger.CLAIMS.read_text(encoding="utf-8"))
    assert set(content["wording"]) <= set(ledger.CHECKS)


def test_ids_count_the_claims_of_a_section():
    ids = {section: [c.id for c in ledger.claims() if c.finding == section] for section in ledger.SECTIONS}
    for section, found in ids.items():
        prefix = {"tables": "T", "text": "X"}.get(section, section)
        assert found == [f"{prefix}.{i}" for i in range(1, len(found) + 1)]
    assert [c.id for c in ledger.claims()] == [id for found in ids.values() for id in found]


MISWRITTEN = {  # an edit of the file and what the error must name
    "unknown check": ("check: empty_floor", "check: empty_flor", ["F1.1", "'empty_flor'", "Nearest: empty_floor"]),
    "unknown section": ("finding: F1\n", "finding: F9\n", ["F1.1", "'F9'", "Nearest: F"]),
    "duplicate id": ("id: F1.2", "id: F1.1", ["F1.1", "two claims"]),
    "no id": ("- id: F1.2\n  finding", "- finding", ["claim without id", "id is missing"]),
    "no place": ("  where: table 2\n", "", ["F1.4", "where is missing"]),
    "no wording": ("  why: Counted as any", "  note: Counted as any", ["F1.1", "why is missing"]),
    "text that is none": ("where: table 3", "where: 3", ["F1.5", "where is 3", "expected a text"]),
    "unknown parameter": ("  layers: [4]\n", "  layer: 4\n", ["F1.6", "counts_by_layer", "'layer'"]),
    "missing parameter": ("  through: 52\n", "", ["F2.5", "none_through", "'through'"]),
    "no YAML": ("claims:", "claims: [", ["not valid YAML"]),
}


@pytest.mark.parametrize("kind", MISWRITTEN)
def test_a_miswritten_claim_is_named(kind, tmp_path):
    old, new, words = MISWRITTEN[kind]
    text = ledger.CLAIMS.read_text(encoding="utf-8")
    assert old in text
    file = tmp_path / "some_claims.yml"
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ledger.ClaimError) as error:
        ledger.claims(file)
    assert str(error.value).startswith("some_claims.yml") and all(word in str(error.value) for word in words), (
        error.value
    )


def test_a_template_that_names_what_was_not_found_is_named(published):
    claim = replace(ledger.claims()[0], value="{{ nothing }}")
    with pytest.raises(ledger.ClaimError, match="F1.1: .*'nothing' is undefined"):
        ledger.judge(claim, published)


# What the claims come to


def find(entries, words):
    """The one entry whose claim begins with these words."""
    rows = entries[entries["claim"].str.startswith(words)]
    assert len(rows) == 1, (words, list(rows["claim"]))
    return rows.iloc[0]


def test_the_ledger_covers_every_finding_and_speaks_in_sentences(entries, published):
    assert len(entries) >= 32 and entries.index.is_unique and entries["claim"].is_unique
    assert set(entries["finding"]) == set(ledger.SECTIONS) and set(entries["verdict"]) == set(ledger.VERDICTS)
    assert (entries.groupby("finding").size() >= 7).all()
    for r in entries.itertuples():
        assert r.claim.endswith(".") and r.why.endswith(".") and r.where and r.value, r.Index
        assert not re.search(r"\bnan\b|<NA>|None|\|", f"{r.claim} {r.where} {r.value} {r.why}"), r


DISAGREES = {  # what a careful reader finds, and what the recomputed value must say
    "OLMo holds at 0 % through 52B": ["1 head"],
    "One third of Pythia's final": ["2 of 3 first at 6.29B"],
    "One third of OLMo's final": ["1 of 3 first at 10B"],
    "Two thirds of OLMo's final": ["2 of 3 first at 23B"],
    "Two thirds of OLMoE's final": ["3 of 4 first at 104B"],
    "All of OLMoE's final": ["4 of 4 first at 2516B"],
    "Two thirds take about 2.0 %": ["Pythia 2.1 %", "OLMo 0.75 %", "OLMoE 2 %"],
    "The screen finds the final circuit": ["0.75 to 2.1 %"],
    "For every head of the final": ["start 6 of 8", "own 6 of 8", "peers 6 of 8"],
    "So it is for OLMoE's": ["start 0 of 2"],
    "Table 1 lists": ["26 rows", "30 runs"],
    "A revision of Pythia is step8": ["step4"],
    "A revision of OLMo is step312000": ["step285000"],
    "The last revision of OLMoE is step1223842": ["step1220000"],
    "Eight revisions of OLMoE": ["10 in the files"],
    "The mixture of experts ends with about 10 points fewer": ["5.1 points"],
    "These fractions count the heads whose highest": ["57.8 %", "80.9 %", "75.8 %"],
    "Tokens of the listed revisions": ["22 of 23"],
    "A dash in table 4": ["14 of 15"],
    "Of the three, the gap": ["47.7x", "11.5x"],
    "In Pythia the other layers come close to saturation": ["4 to 8 of 8"],
}
AGREES = {
    "Layers 0 and 1 hold no BOS head": ["at most 0", "30 revisions"],
    "BOS heads by layer of Pythia": ["80 of 80"],
    "BOS heads by layer of OLMo": ["80 of 80"],
    "Pythia's BOS fraction": ["10.9, 46.1, 57.8"],
    "Between 117B and 264B tokens OLMo's": ["62.9 points"],
    "Three induction heads (50x)": ["Pythia at 6.29B", "OLMo at 23B", "OLMoE at 20B"],
    "OLMo: 11.5 times": ["11.5x"],
    "OLMoE: 21 times": ["20.9x"],
    "Pythia: about 50 times": ["47.7x"],
    "Two thirds of Pythia's final": ["2 of 3 first at 6.29B"],
    "All of Pythia's final": ["3 of 3 first at 79.7B"],
    "All of OLMo's final": ["3 of 3 first at 3048B"],
    "One third of OLMoE's final": ["2 of 4 first at 20B"],
    "PR and induction selectivity of Pythia's L4H4": ["20 of 20"],
    "Its PR leads its selectivity about 12 times": ["11.7x"],
    "So it is for Pythia's": ["start 3 of 3"],
}
UNCHECKED = {
    "117B and 264B are adjacent published checkpoints": ["adjacent in the panel"],
    "OLMo and OLMoE were trained on the same corpus": ["not in the tables"],
    "PR was computed from 2,000": ["not in the tables"],
    "30 previous-token heads": ["not in the tables"],
    "The floor holds from random initialisation": ["OLMo at 2B", "OLMoE at 20B"],
}


@pytest.mark.parametrize(
    "verdict, claims", [("disagrees", DISAGREES), ("agrees", AGREES), ("cannot be checked", UNCHECKED)]
)
def test_verdicts(entries, verdict, claims):
    for words, values in claims.items():
        entry = find(entries, words)
        assert entry["verdict"] == verdict and all(v in entry["value"] for v in values), (words, dict(entry))


def test_a_disagreement_says_under_which_reading_it_would_be_true(entries):
    assert "true at 30x" in find(entries, "Two thirds of OLMo's")["why"]
    assert "L4H12 41.8x" in find(entries, "Two thirds of OLMo's")["why"]
    assert "true at 30x" in find(entries, "Two thirds of OLMoE's")["why"]
    assert "not the number printed either" in find(entries, "One third of OLMo's")["why"]
    assert "10.1 points" in find(entries, "The mixture of experts ends")["why"]
    every = find(entries, "For every head of the final")["why"]
    assert "L5H10 and OLMoE L7H0 are past 50x at the first revision" in every and "L8H10 (68)" in every
    assert "layer 4) at 10B" in find(entries, "OLMo holds at 0 %")["why"]
    assert "209B and 2516B" in find(entries, "Eight revisions")["why"]
    assert "about 70" in find(entries, "117B and 264B are adjacent published")["why"]


def set_to(published, frame, column, value, **where):
    """A copy of the tables with one column changed where the other columns have these values."""
    rows = getattr(published, frame).copy()
    mask = pd.concat([rows[k] == v for k, v in where.items()], axis=1).all(axis=1)
    assert mask.any()
    rows.loc[mask, column] = value
    return replace(published, **{frame: rows})


FLIPS = [  # claim, its verdict after the change, the change
    ("Layers 0 and 1 hold", "disagrees", ("layer_counts", "bos_heads_at_30x", 1, {"model": OLMO, "step": 7, "layer": 1})),
    ("BOS heads by layer of OLMo", "disagrees", ("layer_counts", "bos_heads_at_30x", 8, {"model": OLMO, "step": 9, "layer": 15})),
    ("OLMo holds at 0 %", "agrees", ("layer_counts", "bos_heads_at_30x", 0, {"model": OLMO, "step": 2})),
    ("Pythia's BOS fraction", "disagrees", ("layer_counts", "bos_heads_at_30x", 8, {"model": PYTHIA, "step": 9, "layer": 15})),
    ("OLMo's rises in one sharp", "disagrees", ("layer_counts", "bos_heads_at_30x", 6, {"model": OLMO, "step": 5})),
    ("Three induction heads (50x)", "disagrees", ("selectivity", "induction", 60.0, {"model": OLMO, "step": 2})),
    ("Three induction heads (50x)", "cannot be checked", ("layer_counts", "induction_heads_at_30x", 3, {"model": OLMO, "step": 1, "layer": 2})),
    ("OLMo: 11.5 times", "disagrees", ("layer_counts", "bos_heads_at_30x", 10, {"model": OLMO, "step": 5})),
    ("One third of Pythia's", "agrees", ("selectivity", "induction", 60.0, {"model": PYTHIA, "step": 4, "name": "L4H4"})),
    ("Two thirds of OLMo's", "agrees", ("selectivity", "induction", 50.0, {"model": OLMO, "step": 2, "name": "L4H12"})),
    ("All of OLMo's", "disagrees", ("selectivity", "induction", 51.0, {"model": OLMO, "step": 8, "name": "L12H8"})),
    ("The final induction circuits have", "disagrees", ("selectivity", "induction", 49.0, {"model": OLMO, "step": 9, "name": "L12H8"})),
    ("PR and induction selectivity of Pythia's", "disagrees", ("pr", "pr", 27.36, {"model": PYTHIA, "step": 4, "name": "L4H4"})),
    ("Its PR leads its selectivity", "disagrees", ("pr", "pr", 5.0, {"model": PYTHIA, "step": 3, "name": "L4H4"})),
    ("So it is for Pythia's", "disagrees", ("pr", "pr", 1.0, {"model": PYTHIA, "name": "L7H1"})),
    ("Tokens of the listed revisions", "agrees", ("layer_counts", "tokens", 67_000_000, {"model": PYTHIA, "step": 3})),
]  # fmt: skip


@pytest.mark.parametrize("words, expected, change", FLIPS)
def test_verdicts_are_computed(entries, published, words, expected, change):
    before = find(entries, words)
    frame, column, value, where = change
    claim = next(c for c in ledger.claims() if c.text == before["claim"])
    found = ledger.judge(claim, set_to(published, frame, column, value, **where))
    assert before["verdict"] != expected and found[1] == expected, found


@pytest.mark.parametrize(
    "value, printed, agrees",
    [
        (57.8125, "57.8", True), (57.85, "57.8", True), (57.86, "57.8", False), (299.9, "300", True), (11.478, "11.5", True),
        (6.29, "~6", True), (6.7, "~6", False), (1.34e8, "6.7e7", False), (6.71e7, "6.7e7", True), (0.00179, "2e-3", True),
    ],
)  # fmt: skip
def test_when_a_number_agrees(value, printed, agrees):
    assert matches(value, printed) is agrees


def test_the_page(published, entries):
    text = page_of(ledger.entries(published))
    counts = entries["verdict"].value_counts()
    assert f"**{len(entries)} statements**, {counts['agrees']} agree" in text.splitlines()[0]
    assert text.count("## ") == len(ledger.SECTIONS) == text.count('<div class="table-scroll evidence"')
    for word, css in ledger.VERDICTS.items():
        assert text.count(f"[{word}]{{.verdict .{css}}}") == counts[word]
    assert all(line.count("|") == 5 for line in text.splitlines() if line.startswith("| "))
    assert all(f"*{rule}*: {says}" in text for rule, says in p.RULES.items())
