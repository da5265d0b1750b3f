"""Head tables are measured once, carry their provenance and are measured again only if something changed."""

import pandas as pd
import pytest
import yaml
from conftest import tiny_model

from lib import provenance
from lib.findings.counting import Trajectory
from lib.measure import bootstrap
from lib.panels.checkpoints import CheckpointError
from lib.panels.panel import load_panel
from lib.tables import heads, storage


@pytest.fixture
def panel(tiny_panel):
    return load_panel(tiny_panel)


def test_a_table_is_measured_on_demand_and_then_read(panel, monkeypatch):
    assert heads.read(panel, "tiny-olmo", "step0") is None
    measured = heads.head_table(panel, "tiny-olmo", "step0")
    monkeypatch.setattr(heads, "measure", None)  # would raise
    pd.testing.assert_frame_equal(heads.head_table(panel, "tiny-olmo", "step0"), measured)


def test_provenance_travels_with_the_file(panel):
    heads.head_table(panel, "tiny-olmo", "step0")
    told = pd.read_parquet(heads.table_path(panel, "tiny-olmo", "step0")).attrs["provenance"]
    assert (told["panel"], told["model"], told["revision"]) == ("tiny", "tiny-olmo", "step0")
    assert told["dtype"] == "float32" and told["device"] == "cpu" and told["seconds"] > 0
    assert len(told["sources"]["weights"]) == len(told["tokens_sha256"]) == 64
    assert {"torch", "transformers", "numpy"} <= set(told["sources"]["versions"])


def test_other_weights_another_batch_or_other_code_make_a_table_stale(panel, tiny_panel, tmp_path, monkeypatch):
    heads.head_table(panel, "tiny-olmo", "step0")
    content = yaml.safe_load(open(tiny_panel))
    content["batch"]["seed"] = 43
    (tmp_path / "other.yml").write_text(yaml.safe_dump(content))
    assert heads.read(load_panel(tmp_path / "other.yml"), "tiny-olmo", "step0") is None
    assert heads.read(panel, "tiny-olmo", "step0") is not None
    monkeypatch.setattr(provenance, "code_digest", lambda *_: "changed")
    assert heads.read(panel, "tiny-olmo", "step0") is None


def test_new_weights_in_the_same_folder_are_noticed(panel, tiny_panel, tmp_path):
    content = yaml.safe_load(open(tiny_panel))
    content["models"] = {"tiny-olmo": content["models"]["tiny-olmo"] | {"path": str(tmp_path / "mine")}}
    for seed, revision in enumerate(("step0", "step10", "step1000")):
        tiny_model("olmo", seed).save_pretrained(tmp_path / "mine" / revision)
    (tmp_path / "mine.yml").write_text(yaml.safe_dump(content))
    mine = load_panel(tmp_path / "mine.yml")
    before = heads.head_table(mine, "tiny-olmo", "step0")
    tiny_model("olmo", 99).save_pretrained(tmp_path / "mine" / "step0")
    heads.weights_digest.cache_clear()  # a program that reads tables reads a checkpoint's files once
    assert heads.read(mine, "tiny-olmo", "step0") is None
    after = heads.head_table(mine, "tiny-olmo", "step0")
    assert before.attrs["provenance"]["content"] != after.attrs["provenance"]["content"]


def test_measuring_twice_gives_the_same_numbers(panel):
    first, second = (heads.measure(panel, "tiny-neox", "step10") for _ in range(2))
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert storage.content_digest(first) == storage.content_digest(second)


def test_a_half_written_table_is_never_read(panel, monkeypatch):
    def die(self, path, **_):
        path.write_bytes(b"PAR1 half")
        raise OSError("disk full")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", die)
    with pytest.raises(OSError, match="disk full"):
        heads.measure(panel, "tiny-olmo", "step0")
    assert heads.read(panel, "tiny-olmo", "step0") is None
    assert list(heads.table_path(panel, "tiny-olmo", "step0").parent.iterdir()) == []


def test_a_missing_checkpoint_is_named(tiny_panel, tmp_path):
    content = yaml.safe_load(open(tiny_panel))
    content["models"]["tiny-olmo"]["revisions"].append({"name": "step9999", "tokens": 9_999_999})
    (tmp_path / "more.yml").write_text(yaml.safe_dump(content))
    with pytest.raises(CheckpointError, match="no checkpoint in .*step9999: train the mini models first"):
        heads.head_table(load_panel(tmp_path / "more.yml"), "tiny-olmo", "step9999")


def test_another_architecture_is_refused(tiny_panel, tmp_path):
    from transformers import GPT2Config, GPT2LMHeadModel

    content = yaml.safe_load(open(tiny_panel))
    content["models"]["tiny-olmo"]["path"] = str(tmp_path / "gpt2")
    (tmp_path / "gpt2.yml").write_text(yaml.safe_dump(content))
    config = GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=None, eos_token_id=None)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2" / "step0")
    with pytest.raises(CheckpointError, match="is a GPT2LMHeadModel; the measurements are checked for GPTNeoX"):
        heads.head_table(load_panel(tmp_path / "gpt2.yml"), "tiny-olmo", "step0")


def test_a_trajectory_is_in_order_of_training(panel):
    whole = heads.trajectory(panel, "tiny-olmo")
    assert whole["step"].is_monotonic_increasing and len(whole) == 3 * 6
    assert whole.groupby("step")["tokens"].first().tolist() == [0, 10_000, 1_000_000]


def test_comments_do_not_make_results_stale(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(provenance, "ROOT", tmp_path)

    def digest(source):
        provenance.code_digest.cache_clear()
        (tmp_path / "lib" / "m.py").write_text(source)
        return provenance.code_digest("m")

    try:
        assert digest("x = 1\n") == digest("# why\n\nx = 1  # because\n") != digest("x = 2\n")
    finally:
        provenance.code_digest.cache_clear()


def test_replicates_lie_in_the_same_file_and_give_its_intervals(panel):
    table = heads.measure(panel, "tiny-neox", "step10")
    replicates = heads.read_replicates(panel, "tiny-neox", "step10")
    assert {"pr", "pr_centred", "sink_mass", "prefix_matching", "baseline_paper", "attention_induction"} <= set(
        replicates
    )
    for name, values in replicates.items():
        assert values.shape == (bootstrap.REPLICATES, len(table))
        low, high = bootstrap.interval(values)
        assert table[f"{name}_low"].to_numpy() == pytest.approx(low, rel=1e-5)
        assert table[f"{name}_high"].to_numpy() == pytest.approx(high, rel=1e-5)
        assert (table[f"{name}_low"] <= table[name] * (1 + 1e-6)).mean() > 0.9
    assert not any(c.startswith("replicates_") for c in heads.read(panel, "tiny-neox", "step10").columns)


def test_replicates_of_all_revisions_stand_in_the_order_of_the_trajectory(panel):
    whole = Trajectory.of(heads.trajectory(panel, "tiny-olmo"), heads.replicates(panel, "tiny-olmo"))
    assert whole["pr"].shape == (3, 6) and whole.replicates["pr"].shape == (bootstrap.REPLICATES, 3, 6)
    middle = whole.replicates["selectivity_induction"].mean(axis=0)
    assert middle == pytest.approx(whole["selectivity_induction"], rel=0.2)
    assert whole.draw(7)["pr"] == pytest.approx(whole.replicates["pr"][7])
