"""The contestants of the benchmark measure the same thing; how long they take is no test's business."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ROOT, tiny_model
from test_capture import ARCHITECTURES
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks import contestants, shapes, tables, timing
from benchmarks import pages as costs
from lib.measure.ablation import capability
from lib.measure.batch import induction_batch


@pytest.mark.parametrize("architecture", ["gpt_neox", "olmo", "olmoe"])
def test_all_contestants_agree(architecture):
    batch = induction_batch(40, 64, 0, 64)
    found = {
        name: call(tiny_model(architecture, 3, **ARCHITECTURES[architecture]), batch)
        for name, call in contestants.CONTESTANTS.items()
    }
    ours = found["(a) ours"]
    for name, values in found.items():
        for quantity in ours.keys() & values.keys():
            assert values[quantity] == pytest.approx(ours[quantity], abs=1e-5, rel=1e-4), (name, quantity)
    top1 = capability(tiny_model(architecture, 3, **ARCHITECTURES[architecture]), batch)["top1"]
    assert [values["top1"] for values in found.values() if "top1" in values] == [top1] * 4
    assert len(ours) == 7 and all(len(found[f"({c}"]) == 8 for c in ("b) three passes", "c) run_with_cache"))


def test_a_round_calls_everybody_once_and_the_median_is_of_the_rounds():
    calls = []
    seconds = timing.interleaved({name: lambda name=name: calls.append(name) for name in "ab"}, repeats=3)
    assert calls == list("ab") * 3 and seconds.keys() == {"a", "b"}


def allocate(mib):
    np.ones(mib * 2**20 // 8)


def sizes(mib):
    return (mib,)


def test_peak_memory_is_that_of_the_call_and_not_of_what_was_there_before():
    from functools import partial

    peak = timing.peak_memory(partial(sizes, 300), allocate)
    assert np.isnan(peak) or peak == pytest.approx(300, rel=0.1)


def test_what_measures_the_memory_of_runs_adds_no_torch_to_them():
    line = "import sys, benchmarks.report; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", line], cwd=ROOT).returncode == 0


def test_the_ablation_benchmark_has_a_whole_causal_table():
    from lib.tables import causal

    conditions = causal.conditions(tables.OWN_CIRCUIT, [], tables.FINAL_CIRCUIT, 16, 8)
    assert len(conditions) == 45 and min(layer for _, _, heads in conditions[1:] for layer, _ in heads) == 8


@pytest.mark.parametrize("name", ["Pythia 1B", "OLMo 1B"])
def test_counting_a_causal_table(name):
    architecture, settings = shapes.SHAPES[name]
    config = AutoConfig.for_model(architecture, **settings)
    one = tables.counted(config, [[(0, 0)]])
    body = config.num_hidden_layers / (config.num_hidden_layers + 2)  # logits cost about as much as two layers
    assert body - 0.1 < one < body and one == tables.counted(config, [[], []])
    twice = tables.counted(config, [[(0, 0)], [(0, 1)]])
    last = tables.counted(config, [[(15, 0)], [(15, 1)]])  # what sets share is computed once
    assert 1.9 * one < twice < 2 * one and last == one


def test_an_exponent_is_that_of_a_power_law():
    assert tables.exponent({1: 3.0, 2: 12.0, 4: 48.0}) == pytest.approx(2)
    assert np.isnan(tables.exponent({1: 3.0, 2: np.nan}))


def test_saved_tables_are_read_back_with_where_they_were_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(costs, "FOLDER", tmp_path)
    assert costs.read("growth") is None
    tables.save("growth", pd.DataFrame({"grows": ["layers"], "seconds": [1.5]}))
    table, machine = costs.read("growth")
    assert table["seconds"].tolist() == [1.5] and machine["threads"] == timing.THREADS


@pytest.mark.parametrize(
    "name, architecture, settings",
    [
        ("Pythia 1B", "gpt_neox", {"intermediate_size": 8192, "num_hidden_layers": 16}),
        ("OLMo 7B", "olmo", {"intermediate_size": 11008, "num_hidden_layers": 32}),
        ("Llama 2 70B", "llama", {"intermediate_size": 28672, "num_hidden_layers": 80, "num_key_value_heads": 8}),
    ],
)
def test_the_shapes_that_costs_are_worked_out_for_have_the_parameters_of_transformers_models(
    name, architecture, settings
):
    shape = costs.SHAPES[name]
    settings |= {"hidden_size": shape.width, "num_attention_heads": 64 if shape.width == 8192 else 32}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **settings))
    matrices = [p.numel() for n, p in model.base_model.named_parameters() if p.ndim == 2 and "embed" not in n]
    assert shape.layers == len(model.base_model.layers) and shape.parameters == sum(matrices)


def test_the_report_shows_the_tables_that_are_saved():
    for name, text in costs.PAGES.items():
        assert (costs.FOLDER / f"{name}.md").read_text(encoding="utf-8") == f"{text()}\n", (
            f"{name}: benchmarks.pages.write()"
        )
