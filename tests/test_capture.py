"""Capture: golden values and transformers' own eager attention."""

import json

import numpy as np
import pytest
import torch
from conftest import GOLDEN, tiny_model
from transformers import AutoModelForCausalLM

from lib.measure import attention, metrics
from lib.measure.attention import as_bridge
from lib.measure.batch import induction_batch
from lib.measure.capture import measure_heads

ARCHITECTURES = {
    "gpt_neox": {},
    "olmo": {"clip_qkv": 8.0},
    "olmo, heads sharing keys": {"clip_qkv": 8.0, "num_key_value_heads": 1},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False},
}


def a_model(name):
    return tiny_model(name.split(",")[0], 3, **ARCHITECTURES[name])


@pytest.fixture(scope="module", params=["neox", "olmo", "olmoe"])
def golden(request):
    """(expected values, model, batch) of one golden model."""
    folder = GOLDEN / request.param
    expected = json.loads((folder / "expected.json").read_text())
    b = expected["batch"]
    batch = induction_batch(b["n"], b["seq_len"], b["vocab_low"], b["vocab_high"], b["seed"])
    return expected, AutoModelForCausalLM.from_pretrained(folder), batch


def flat(values):
    return np.array(values).ravel()


def test_golden_head_table(golden):
    expected, model, batch = golden
    table, golden_values = measure_heads(model, batch), expected["measurement"]
    for c in metrics.CLASSES:
        assert table[f"attention_{c}"].to_numpy() == pytest.approx(flat(golden_values["attention"][c]), abs=1e-5)
        assert table[f"selectivity_{c}"].to_numpy() == pytest.approx(
            flat(golden_values["selectivity_paper"][c]), rel=1e-3
        )
        assert table[f"selectivity_clean_{c}"].to_numpy() == pytest.approx(
            flat(golden_values["selectivity_clean"][c]), rel=1e-3
        )
    for baseline in metrics.BASELINES:
        assert table[f"baseline_{baseline}"].to_numpy() == pytest.approx(
            flat(golden_values[f"baseline_{baseline}"]), abs=1e-5
        )
    assert table["pr"].to_numpy() == pytest.approx(flat(golden_values["participation_ratio"]), rel=1e-3)
    assert table["pr_centred"].to_numpy() == pytest.approx(flat(golden_values["participation_ratio_centred"]), rel=1e-3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_capture_agrees_with_transformers_eager_attention(architecture):
    """One head at a time, from output_attentions and the input of the output projection."""
    batch = induction_batch(6, 64, 0, 64)
    model = a_model(architecture)
    model.set_attn_implementation("eager")
    layers = model.gpt_neox.layers if architecture == "gpt_neox" else model.model.layers
    z = {}
    for i, layer in enumerate(layers):
        project = layer.attention.dense if architecture == "gpt_neox" else layer.self_attn.o_proj
        project.register_forward_pre_hook(lambda _, inputs, i=i: z.__setitem__(i, inputs[0][:, -1].detach()))
    with torch.no_grad():
        attentions = model(batch.tokens, output_attentions=True).attentions
    table = measure_heads(a_model(architecture), batch)
    d_head = 16 // 2
    for row in table.itertuples():
        last = attentions[row.layer][:, row.head, -1].double().numpy()
        for i_class, position in (("first_token", 0), ("previous_token", 62), ("self", 63)):
            assert getattr(row, f"attention_{i_class}") == pytest.approx(last[:, position].mean(), abs=1e-6)
        induction = last[np.arange(6), batch.first_a.numpy() + 1].mean()
        assert row.attention_induction == pytest.approx(induction, abs=1e-6)
        slice_ = z[row.layer][:, row.head * d_head : (row.head + 1) * d_head].double().numpy()
        assert row.pr == pytest.approx(metrics.participation_ratio(slice_), rel=1e-4)
        assert row.pr_centred == pytest.approx(metrics.participation_ratio(slice_, centred=True), rel=1e-4)


def test_every_promised_column_is_there():
    table = measure_heads(tiny_model("gpt_neox", 0), induction_batch(4, 64, 0, 64))
    promised = {"layer", "head", "baseline_paper", "baseline_clean", "pr", "pr_centred"}
    for c in ("induction", "previous_token", "duplicate_token", "first_token", "self", "local"):
        promised |= {f"attention_{c}", f"selectivity_{c}", f"selectivity_clean_{c}"}
    assert promised <= set(table.columns) and len(table) == 6


def test_the_size_of_micro_batches_does_not_change_the_numbers(monkeypatch):
    batch = induction_batch(10, 64, 0, 64)
    whole = measure_heads(tiny_model("olmo", 1), batch)
    monkeypatch.setitem(attention.MICRO_BATCH_TOKENS, "cpu", 3 * 64)
    parts = measure_heads(tiny_model("olmo", 1), batch)
    np.testing.assert_allclose(parts, whole, rtol=1e-5)


def test_broken_weights_are_named_by_layer_and_head():
    model = tiny_model("olmo", 0)
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight[8:] = float("inf")  # the values of head 1
    with pytest.raises(ValueError, match="layer 1 head 1 .*NaN or infinity"):
        measure_heads(model, induction_batch(4, 64, 0, 64))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parts_of_attention_are_those_of_the_pattern_of_transformerlens(architecture):
    """Another library's whole patterns: rows, columns and single places, without a pattern on our side."""
    batch = induction_batch(5, 64, 0, 64)
    queries, keys = np.array([3, 40, 63]), np.array([0, 17, 63])

    def parts(of):
        return of.last_row(), of.to_first(), of.between(queries, keys), of.z

    model = a_model(architecture)
    [(_, seen)] = attention.watch(model, batch.tokens, parts)
    of_layers = (torch.from_numpy(x).unflatten(1, (model.config.num_hidden_layers, -1)).unbind(1) for x in seen)
    bridge = as_bridge(a_model(architecture))
    with torch.no_grad():
        _, cache = bridge.run_with_cache(batch.tokens)
    for layer, (last, first, between, z) in enumerate(zip(*of_layers, strict=True)):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"].double()
        torch.testing.assert_close(last, pattern[:, :, -1], atol=5e-6, rtol=0)
        torch.testing.assert_close(first, pattern[..., 0], atol=5e-6, rtol=0)
        torch.testing.assert_close(between, pattern[:, :, queries, keys], atol=5e-6, rtol=0)
        expected = cache[f"blocks.{layer}.attn.hook_z"].transpose(1, 2)
        torch.testing.assert_close(z, expected, atol=5e-5, rtol=0)


def test_other_devices_compute_the_denominator_that_the_fused_kernel_gives():
    query, key, value = torch.randn(3, 2, 4, 32, 8, generator=torch.Generator().manual_seed(0))
    fused = attention._attend_on_cpu(query, key, value, 0.5)
    for here, there in zip(fused, attention._attend_elsewhere(query, key, value, 0.5)):
        torch.testing.assert_close(here, there)


@pytest.mark.parametrize("architecture", ["gpt_neox", "olmo", "olmoe"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_measured_close_to_full(architecture, dtype):
    batch = induction_batch(8, 64, 0, 64)
    full, half = (measure_heads(a_model(architecture).to(d), batch) for d in (torch.float32, dtype))
    assert np.abs(half["attention_first_token"] - full["attention_first_token"]).max() < 0.1
    assert half["pr"].to_numpy() == pytest.approx(full["pr"].to_numpy(), rel=0.2)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("MPS backend out of memory")]
)
def test_a_micro_batch_that_does_not_fit_is_halved_and_nothing_is_lost(monkeypatch, error):
    batch, sizes = induction_batch(10, 64, 0, 64), []
    expected = measure_heads(tiny_model("olmo", 1), batch)
    forward = attention._forward

    def small_device(model, tokens, see):
        sizes.append(len(tokens))
        if len(tokens) > 3:
            raise error
        return forward(model, tokens, see)

    monkeypatch.setattr(attention, "_forward", small_device)
    with pytest.warns(UserWarning, match="out of memory on cpu: going on with 2 sequences at a time"):
        table = measure_heads(tiny_model("olmo", 1), batch)
    np.testing.assert_allclose(table, expected, rtol=1e-4)
    assert sizes[-5:] == [2] * 5

    def no_device(model, tokens, see):
        raise error

    monkeypatch.setattr(attention, "_forward", no_device)
    with pytest.warns(UserWarning), pytest.raises(RuntimeError, match="out of memory"):
        measure_heads(tiny_model("olmo", 1), batch)
