"""Ablation against surgery on the weights; causal tables: their conditions, and when they are measured again."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import GOLDEN, TOKENS, panel_content, tiny_model
from transformers import AutoModelForCausalLM

from lib import provenance
from lib.figures.of_ablation import over_training
from lib.findings import ablation_effects
from lib.measure import ablation
from lib.measure.ablation import capabilities, capability, matched_random, split_by_layer
from lib.measure.attention import as_bridge
from lib.measure.batch import induction_batch
from lib.panels.panel import Panel, load_panel
from lib.tables import causal, heads

ARCHITECTURES = {
    "GPT-NeoX": ("gpt_neox", {}),
    "GPT-NeoX, MLP after attention": ("gpt_neox", {"use_parallel_residual": False}),
    "OLMo": ("olmo", {"clip_qkv": 8.0}),
    "OLMo, shared keys": ("olmo", {"num_key_value_heads": 1}),
    "OLMoE": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False}),
}
HEADS = [(layer, head) for layer in range(3) for head in range(2)]
D_HEAD = 8


# Ablation --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["neox", "olmo", "olmoe"])
def test_golden_capability(name):
    folder = GOLDEN / name
    expected = json.loads((folder / "expected.json").read_text())
    b = expected["batch"]
    batch = induction_batch(b["n"], b["seq_len"], b["vocab_low"], b["vocab_high"], b["seed"])
    model = AutoModelForCausalLM.from_pretrained(folder)
    whole, ablated = expected["measurement"]["baseline_capability"], expected["ablation"]
    assert capability(model, batch) == pytest.approx(whole, abs=1e-5)
    assert capability(model, batch, ablated["heads"]) == pytest.approx(ablated["capability"], abs=1e-5)
    # Hooks leave nothing behind.
    assert capability(model, batch) == pytest.approx(whole, abs=1e-5)


def surgery(model, batch, ablated):
    """The oracle: transformers' own eager forward pass, the heads' columns of the output projections set to zero."""
    layers = model.base_model.layers
    projections = [layer.attention.dense if hasattr(layer, "attention") else layer.self_attn.o_proj for layer in layers]
    before = [p.weight.clone() for p in projections]
    with torch.no_grad():
        for layer, head in ablated:
            projections[layer].weight[:, head * D_HEAD : (head + 1) * D_HEAD] = 0
        logits = model(batch.tokens).logits[:, -1].double()
        for projection, weight in zip(projections, before):
            projection.weight.copy_(weight)
    rank = (logits > logits.gather(1, batch.targets[:, None])).sum(dim=1)
    return {
        "top1": (rank < 1).double().mean().item(),
        "top5": (rank < 5).double().mean().item(),
        "loss": torch.nn.functional.cross_entropy(logits, batch.targets).item(),
        "target_logit": logits.gather(1, batch.targets[:, None]).mean().item(),
    }


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_all_64_sets_of_heads_at_once_equal_surgery_on_the_weights_one_by_one(name):
    architecture, changes = ARCHITECTURES[name]
    batch = induction_batch(7, 64, 0, 64)
    sets = [list(s) for size in range(len(HEADS) + 1) for s in itertools.combinations(HEADS, size)]
    np.random.default_rng(0).shuffle(sets)
    model = tiny_model(architecture, 3, **changes)
    measured = capabilities(model, batch, sets)
    oracle = tiny_model(architecture, 3, **changes)
    oracle.set_attn_implementation("eager")
    for ablated, found in zip(sets, measured, strict=True):
        assert found == pytest.approx(surgery(oracle, batch, ablated), abs=1e-5), ablated
    assert np.ptp([found["loss"] for found in measured]) > 0.1  # zeroing heads does something


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_is_given_back_as_it_was_wrapped_or_not(name):
    architecture, changes = ARCHITECTURES[name]
    batch = induction_batch(5, 64, 0, 64)
    sets = [[], [(0, 1)], [(0, 1), (2, 0)], [(2, 0)]]
    model = tiny_model(architecture, 3, **changes)
    model.set_attn_implementation("eager")
    before = model(batch.tokens).logits
    plain = capabilities(model, batch, sets)
    assert model.config._attn_implementation == "eager"
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert torch.equal(model(batch.tokens).logits, before)
    as_bridge(model)
    for wrapped, expected in zip(capabilities(model, batch, sets), plain):
        assert wrapped == pytest.approx(expected, abs=1e-6)


def test_a_model_is_given_back_after_an_error_too():
    batch = induction_batch(4, 64, 0, 64)
    model = tiny_model("olmo", 0)
    model.set_attn_implementation("eager")
    broken = type(batch)(batch.tokens + 64, batch.targets, batch.first_a)  # ids the model does not have
    with pytest.raises(IndexError):
        capabilities(model, broken, [[(1, 0)]])
    assert model.config._attn_implementation == "eager"
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_the_order_and_number_of_sets_and_the_size_of_steps_do_not_change_the_numbers(monkeypatch):
    batch = induction_batch(10, 64, 0, 64)
    model = tiny_model("olmo", 1)
    sets = [[(1, 1)], [], [(0, 0), (2, 1)], [(1, 1)], [(2, 1), (0, 0)]]
    together = capabilities(model, batch, sets)
    assert together[0] == together[3] and together[2] == together[4]
    monkeypatch.setattr(ablation, "STREAM_TOKENS", 3 * 64)  # a sequence at a time, three where there is one stream
    for ablated, found in zip(sets, together):
        assert capability(model, batch, ablated) == pytest.approx(found, abs=1e-6)
    for found, expected in zip(capabilities(model, batch, sets), together):
        assert found == pytest.approx(expected, abs=1e-6)
    assert capabilities(model, batch, []) == []


def test_streams_split_where_sets_begin_to_differ():
    sets = [frozenset(s) for s in ([], [(1, 0)], [(1, 0), (2, 1)], [(2, 1)], [(1, 0)])]
    splits, streams = split_by_layer(sets, 3)
    assert [parents for parents, _ in splits] == [[0], [0, 0], [0, 1, 1, 0]]
    assert [ablated for _, ablated in splits] == [[[]], [[], [0]], [[], [], [1], [1]]]
    assert streams == sets[:4]


def test_a_head_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="no head L3H0: the model has 3 layers of 2 heads"):
        capability(tiny_model("olmo", 0), induction_batch(2, 64, 0, 64), [(3, 0)])


def test_matched_random_heads_match_layer_by_layer():
    circuit = [(0, 1), (2, 0), (2, 3)]
    draws = matched_random(circuit, n_layers=4, n_heads=8, draws=20)
    for draw in draws:
        assert not set(draw) & set(circuit) and len(set(draw)) == 3
        assert sorted(layer for layer, _ in draw) == [0, 2, 2]
    assert len({tuple(d) for d in draws}) > 1
    assert draws == matched_random(circuit, 4, 8, 20)


def test_matched_random_fills_up_from_other_layers():
    circuit = [(1, 0), (1, 1), (1, 2)]
    for draw in matched_random(circuit, n_layers=3, n_heads=4, draws=10):
        assert (1, 3) in draw and len(set(draw)) == 3 and not set(draw) & set(circuit)
    assert matched_random([(0, 0), (0, 1), (1, 0)], n_layers=2, n_heads=2, draws=5) == []


# Causal tables ---------------------------------------------------------------------

MODEL = "tiny-olmo"
BOTH_RANDOM = {"random", "final_random"}


@pytest.fixture(scope="module")
def head_tables(tiny_models, tmp_path_factory):
    """{revision: bytes of its head table}, measured once for all tests."""
    panel = Panel.model_validate(panel_content(tiny_models))
    with pytest.MonkeyPatch.context() as elsewhere:
        elsewhere.setenv("CIRCUITS_RESULTS", str(tmp_path_factory.mktemp("results")))
        for revision in TOKENS:
            heads.measure(panel, MODEL, revision)
        return {revision: heads.table_path(panel, MODEL, revision).read_bytes() for revision in TOKENS}


@pytest.fixture
def panel(tiny_panel, head_tables):
    """The tiny panel with its head tables measured and no circuit at any revision."""
    panel = load_panel(tiny_panel)
    for revision, content in head_tables.items():
        path = heads.table_path(panel, MODEL, revision)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        give_circuit(panel, revision, [])
    return panel


def give_circuit(panel, revision, induction, previous_token=()):
    """Write a head table in which exactly these heads are past the thresholds."""
    path = heads.table_path(panel, MODEL, revision)
    table = pd.read_parquet(path)
    pairs = list(zip(table["layer"], table["head"]))
    for cls, chosen in (("induction", induction), ("previous_token", previous_token)):
        table[f"selectivity_{cls}"] = [1000.0 if pair in chosen else 1.0 for pair in pairs]
    table.to_parquet(path, index=False)


def heads_of(table):
    """{condition: heads} of a causal table without its random draws."""
    single = table[~table["condition"].isin(BOTH_RANDOM)]
    assert single["condition"].is_unique and (single["draw"] == -1).all()
    return dict(zip(single["condition"], single["heads"]))


def test_without_circuits_there_is_only_the_baseline(panel):
    table = causal.measure(panel, MODEL, "step0")
    assert heads_of(table) == {"baseline": ""} and len(table) == 1
    columns = ["condition", "draw", "heads", "n_heads", "top1", "top5", "loss", "target_logit"]
    assert list(table.columns) == columns and set(table["condition"]) <= set(causal.CONDITIONS)


def test_a_checkpoint_without_a_circuit_of_its_own_is_tried_without_the_final_one(panel):
    give_circuit(panel, "step1000", [(1, 0)])
    table = causal.measure(panel, MODEL, "step0")
    assert heads_of(table) == {"baseline": "", "final_circuit": "L1H0", "final_layers": "L1H0 L1H1"}
    random = table[table["condition"] == "final_random"]
    assert random["draw"].tolist() == list(range(causal.DRAWS)) and set(random["heads"]) == {"L1H1"}
    other = causal.measure(panel, MODEL, "step10")
    assert heads_of(other) == heads_of(table)


def test_where_own_and_final_circuit_differ_both_are_zeroed(panel):
    give_circuit(panel, "step10", [(0, 1), (2, 0)], [(0, 0)])
    give_circuit(panel, "step1000", [(1, 0)])
    table = causal.measure(panel, MODEL, "step10")
    assert heads_of(table) == {
        "baseline": "",
        "previous_token": "L0H0",
        "circuit": "L0H1 L2H0",
        "layers": "L0H0 L0H1 L2H0 L2H1",
        "final_circuit": "L1H0",
        "final_layers": "L1H0 L1H1",
    }
    assert table["condition"].value_counts()[["random", "final_random"]].tolist() == [causal.DRAWS] * 2
    assert (table["n_heads"] == table["heads"].str.split().str.len()).all()
    # The numbers are those of the heads named beside them.
    model = AutoModelForCausalLM.from_pretrained(panel.model(MODEL).folder("step10"))
    batch = induction_batch(**panel.batch.model_dump())
    row = table.set_index("condition").loc["circuit"]
    expected = surgery(model, batch, [(0, 1), (2, 0)])
    assert row[list(expected)].to_dict() == pytest.approx(expected, abs=1e-5)


def test_at_the_last_revision_both_names_appear_and_nothing_is_measured_twice(panel, monkeypatch):
    give_circuit(panel, "step1000", [(1, 0), (2, 1)])
    asked = []
    measure = ablation._last_logits
    monkeypatch.setattr(ablation, "_last_logits", lambda m, t, splits: asked.append(splits) or measure(m, t, splits))
    table = causal.measure(panel, MODEL, "step1000").drop(columns="draw")
    for own, final in (("circuit", "final_circuit"), ("layers", "final_layers"), ("random", "final_random")):
        mine, same = (table[table["condition"] == c].drop(columns="condition") for c in (own, final))
        assert len(mine) and mine.to_numpy().tolist() == same.to_numpy().tolist()
    assert len(asked[0][-1][0]) == table["heads"].nunique() < len(table) / 2


def test_random_heads_are_absent_where_too_few_are_left(panel):
    give_circuit(panel, "step1000", [(0, 0), (0, 1), (1, 0), (2, 0)])
    assert set(causal.measure(panel, MODEL, "step1000")["condition"]).isdisjoint(BOTH_RANDOM)


def test_at_most_500_sequences_and_the_table_says_how_many(panel, monkeypatch):
    give_circuit(panel, "step1000", [(1, 0)])
    assert causal.measure(panel, MODEL, "step0").attrs["provenance"]["n_sequences"] == 24  # all that the panel has
    monkeypatch.setattr(causal, "N_SEQUENCES", 10)
    assert causal.read(panel, MODEL, "step0") is None
    table = causal.measure(panel, MODEL, "step0")
    assert table.attrs["provenance"]["n_sequences"] == 10
    # They are the first of the panel's batch.
    batch = induction_batch(**panel.batch.model_dump() | {"n_sequences": 24})
    first = type(batch)(batch.tokens[:10], batch.targets[:10], batch.first_a[:10])
    model = AutoModelForCausalLM.from_pretrained(panel.model(MODEL).folder("step0"))
    assert table["loss"][0] == pytest.approx(capability(model, first)["loss"], abs=1e-6)


def test_a_table_is_read_back_with_its_provenance(panel):
    give_circuit(panel, "step1000", [(1, 0)])
    assert causal.read(panel, MODEL, "step0") is None
    measured = causal.measure(panel, MODEL, "step0")
    found = causal.read(panel, MODEL, "step0")
    pd.testing.assert_frame_equal(found, measured)
    told = found.attrs["provenance"]
    assert (told["panel"], told["model"], told["revision"]) == ("tiny", MODEL, "step0")
    assert told["dtype"] == "float32" and told["device"] == "cpu" and told["seconds"] > 0
    again = causal.measure(panel, MODEL, "step0")
    pd.testing.assert_frame_equal(again, measured, check_exact=True)
    assert again.attrs["provenance"]["content"] == told["content"]


def test_another_circuit_here_or_at_the_last_revision_makes_tables_stale(panel):
    give_circuit(panel, "step1000", [(1, 0)])
    causal.measure(panel, MODEL, "step0")
    causal.measure(panel, MODEL, "step10")
    give_circuit(panel, "step10", [(2, 1)])
    assert causal.read(panel, MODEL, "step10") is None and causal.read(panel, MODEL, "step0") is not None
    give_circuit(panel, "step10", [], [(0, 0)])
    assert causal.read(panel, MODEL, "step10") is None
    give_circuit(panel, "step10", [])
    assert causal.read(panel, MODEL, "step10") is not None
    give_circuit(panel, "step1000", [(1, 0), (1, 1)])
    assert causal.read(panel, MODEL, "step0") is None


def test_other_code_other_draws_or_missing_head_tables_make_a_table_stale(panel, monkeypatch):
    give_circuit(panel, "step1000", [(1, 0)])
    causal.measure(panel, MODEL, "step0")
    real = provenance.code_digest
    with monkeypatch.context() as changed:  # only the code of ablation; the head tables stay
        changed.setattr(provenance, "code_digest", lambda *m: "changed" if "measure.ablation" in m else real(*m))
        assert causal.read(panel, MODEL, "step0") is None
    for name in ("DRAWS", "SEED"):
        with monkeypatch.context() as changed:
            changed.setattr(causal, name, 7)
            assert causal.read(panel, MODEL, "step0") is None
    assert causal.read(panel, MODEL, "step0") is not None
    for revision in ("step1000", "step0"):
        path = heads.table_path(panel, MODEL, revision)
        content = path.read_bytes()
        path.unlink()
        assert causal.read(panel, MODEL, "step0") is None
        path.write_bytes(content)
    assert causal.read(panel, MODEL, "step0") is not None


@pytest.mark.parametrize("revision", ["step0", "step1000"])
def test_another_head_table_here_or_at_the_last_revision_makes_a_table_stale(panel, revision):
    causal.measure(panel, MODEL, "step0")
    path = heads.table_path(panel, MODEL, revision)
    table = pd.read_parquet(path)
    table.attrs["provenance"]["sources"]["more"] = "that head tables may come to depend on"
    table.to_parquet(path, index=False)
    assert heads.read(panel, MODEL, revision) is not None and causal.read(panel, MODEL, "step0") is None


def test_a_half_written_table_is_never_read(panel, monkeypatch):
    def die(self, path, **_):
        path.write_bytes(b"PAR1 half")
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(pd.DataFrame, "to_parquet", die)
        with pytest.raises(OSError, match="disk full"):
            causal.measure(panel, MODEL, "step0")
    assert causal.read(panel, MODEL, "step0") is None
    path = causal.table_path(panel, MODEL, "step0")
    assert list(path.parent.iterdir()) == []
    path.write_bytes(b"PAR1 half")  # by whatever accident
    assert causal.read(panel, MODEL, "step0") is None
    assert len(causal.measure(panel, MODEL, "step0")) == len(causal.read(panel, MODEL, "step0"))


def test_a_trajectory_has_what_is_there_and_resumes(panel):
    assert causal.trajectory(panel, MODEL) is None
    give_circuit(panel, "step1000", [(1, 0)])
    for revision in ("step1000", "step0"):
        causal.measure(panel, MODEL, revision)
    part = causal.trajectory(panel, MODEL)
    assert part["revision"].unique().tolist() == ["step0", "step1000"] and part["step"].unique().tolist() == [0, 2]
    kept = causal.table_path(panel, MODEL, "step0").stat().st_mtime_ns
    missing = [r.name for r in panel.model(MODEL).revisions if causal.read(panel, MODEL, r.name) is None]
    assert missing == ["step10"]
    causal.measure(panel, MODEL, "step10")
    whole = causal.trajectory(panel, MODEL)
    assert whole.groupby("step")["tokens"].first().tolist() == [0, 10_000, 1_000_000]
    assert whole.attrs == {"n_sequences": 24, "draws": causal.DRAWS}
    assert causal.table_path(panel, MODEL, "step0").stat().st_mtime_ns == kept


# What they say ---------------------------------------------------------------------


def hand_made(baseline, circuit, random):
    """Tables of as many revisions as there are losses; random: at each revision the losses of its draws."""
    rows = []
    for step, loss in enumerate(baseline):
        at = [("baseline", -1, loss)]
        at += [("final_circuit", -1, circuit[step])] if circuit else []
        at += [("final_random", draw, x) for draw, x in enumerate(random[step])] if random else []
        rows += [
            {"condition": c, "draw": d, "heads": "", "loss": x, "top1": 1 / x, "step": step, "tokens": 1000 * step}
            for c, d, x in at
        ]
    tables = pd.DataFrame(rows)
    tables["revision"] = "step" + tables["step"].astype(str)
    tables.attrs = {"n_sequences": 500, "draws": 2}
    return tables


@pytest.mark.parametrize(
    "circuit, most, average",
    [
        ([3, 3, 3, 3], 0, 0),  # always
        ([1, 1, 1, 1], None, None),  # never
        ([1, 1, 3, 3], 2, 2),
        ([1, 1, 1, 3], 3, 3),  # at the last revision only
        ([3, 3, 1, 1], None, None),  # loses it again
        ([3, 1, 1, 3], 3, 3),  # loses it and regains it
        ([1, 2.0, 2.0, 2.0], None, 1),  # as much as the dearest draw is not more
    ],
)
def test_when_the_circuit_starts_to_matter(circuit, most, average):
    tables = hand_made([1] * 4, circuit, [[1.0, 2.0]] * 4)
    assert ablation_effects.starts_to_matter(tables, "most") == most
    assert ablation_effects.starts_to_matter(tables, "average") == average
    assert ablation_effects.starts_to_matter(tables.sample(frac=1, random_state=0), "most") == most  # rows in any order


def test_a_circuit_whose_loss_does_not_rise_above_the_whole_models_does_not_matter():
    tables = hand_made([2, 2], [1.9, 1.9], [[1.0, 1.5]] * 2)
    assert ablation_effects.starts_to_matter(tables, "most") is None
    assert ablation_effects.starts_to_matter(tables, "average") is None


def test_without_a_final_circuit_or_without_draws_nothing_starts_to_matter():
    assert ablation_effects.starts_to_matter(hand_made([1, 1], None, None)) is None
    assert "No induction circuit has formed" in ablation_effects.when_it_matters(hand_made([1, 1], None, None))
    assert ablation_effects.starts_to_matter(hand_made([1, 1], [3, 3], None)) is None
    assert "nothing can be compared" in ablation_effects.when_it_matters(hand_made([1, 1], [3, 3], None))
    assert ablation_effects.when_it_matters(None) == "Nothing has been measured."


def test_the_words_name_the_revision_and_the_probability_of_chance():
    words = ablation_effects.when_it_matters(hand_made([1] * 3, [1, 3, 3], [[1.0, 2.0]] * 3))
    assert words.startswith("By the rule the circuit starts to matter from step1 (1k tokens) on")
    assert "probability 1 in 3" in words


def test_formed_reads_the_causal_table_of_the_last_revision(panel):
    give_circuit(panel, "step1000", [(1, 0)])
    table = causal.measure(panel, MODEL, "step1000")
    table.loc[table["condition"] == "baseline", "top1"] = 0.8
    table.loc[table["condition"] == "circuit", "top1"] = 0.1
    table.loc[table["condition"] == "random", "top1"] = 0.6
    met = ablation_effects.formed_as_asked(heads.trajectory(panel, MODEL), table, panel.thresholds)
    assert len(met) == len(ablation_effects.CRITERIA)
    assert met[1:4] == [(True, "80 %"), (True, "87.5 % of top-1 is lost"), (True, "25 % is lost on average")]
    table.loc[table["condition"] == "random", "top1"] = 0.2
    assert ablation_effects.formed_as_asked(heads.trajectory(panel, MODEL), table, panel.thresholds)[3][0] is False
    bare = table[table["condition"] == "baseline"]
    assert ablation_effects.formed_as_asked(heads.trajectory(panel, MODEL), bare, panel.thresholds)[2] == (
        False,
        "no circuit",
    )


@pytest.mark.parametrize("circuit, random", [([1, 3, 3], [[1.0, 2.0]] * 3), (None, None)])
def test_the_figure_is_told_in_words_with_its_numbers(circuit, random):
    tables = hand_made([1, 1, 1.5], circuit, random)
    figure = over_training(tables, "Tiny", ablation_effects.starts_to_matter(tables))
    assert figure.svg.startswith("<?xml") and "500 sequences" in figure.caption and len(figure.data) == len(tables)
    assert "nothing zeroed: top-1 66.7 %, loss 1.50" in figure.alt
    assert ("final circuit zeroed: top-1 33.3 %, loss 3.00" in figure.alt) == (circuit is not None)
    assert ("2 random sets" in figure.caption) == (random is not None)
    assert ("starts to matter at 1k tokens (step1)" in figure.alt) == (circuit is not None)


def test_the_words_say_what_the_dearest_draws_hit():
    rows = [("baseline", -1, "", 2.0), ("previous_token", -1, "L0H0", 9.0), ("final_circuit", -1, "L1H0", 2.8)]
    rows += [("final_random", i, f"L0H{i}", loss) for i, loss in enumerate([3.0, 2.1, 2.2])]
    made = pd.DataFrame(rows, columns=["condition", "draw", "heads", "loss"]).assign(
        step=0, revision="r0", tokens=4_000_000
    )
    text = ablation_effects.when_it_matters(made)
    assert text.startswith("By the rule the circuit never starts to matter") and "every one of 3 random sets" in text
    assert "more than their average from r0 (4M tokens) on, a low bar: at the last revision 1 of the 3 sets are" in text
    assert "1 set of 3 cost as much as the circuit or more; 1 of them hold a head of the previous-token circuit" in text
    assert "The 2 sets without such a head raise the loss from 2.00 to 2.15 on average, the circuit to 2.80" in text
