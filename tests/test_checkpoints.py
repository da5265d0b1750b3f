"""Checkpoints of a hub: how they are loaded, and what is refused."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from hub_server import OLMO, PYTHIA
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from lib.panels import CheckpointError, load_panel
from lib.panels import checkpoints as models
from lib.report import execution as run
from lib.tables import heads


def spec(name="pythia-1b", **changes):
    model = load_panel("paper").model(name)
    return model.model_copy(update=changes)


def edited_weights(files, name="model.safetensors", edit=lambda tensors: None):
    """A checkpoint's files with its tensors edited in place."""
    tensors = load_tensors(files[name])
    edit(tensors)
    return files | {name: save_tensors(tensors, {"format": "pt"})}


# Loading --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, stored", [("pythia-1b", "float16"), ("olmo-1b-0724", "float32"), ("olmoe-1b-7b-0924", "bfloat16")]
)
def test_a_revision_is_loaded_from_the_cache_in_the_panels_dtype_with_its_commit_and_hash(hub, name, stored):
    revision = spec(name).revisions[2].name
    loaded = models.load(spec(name), revision)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32} and not loaded.training
    assert loaded.checkpoint["hub_commit"] == hub.commit(spec(name).hub, revision)
    assert len(loaded.checkpoint["weights_sha256"]) == 64
    stored_tensors = {}
    for file, data in hub.repos[spec(name).hub][revision].items():
        stored_tensors |= load_tensors(data) if file.endswith(".safetensors") else {}
    same = stored_tensors.keys() & loaded.state_dict().keys()  # transformers renames some and merges experts
    assert len(same) > 8
    for key in same:
        assert str(stored_tensors[key].dtype) == f"torch.{stored}"
        assert torch.equal(loaded.state_dict()[key], stored_tensors[key].float()), key
    asked = {path for _, path, _ in hub.requests}
    assert not any("main" in path or "README" in path or "tokenizer" in path for path in asked)


def test_the_second_load_downloads_nothing(hub):
    models.load(spec(), "step512")
    hub.reset()
    models.load(spec(), "step512")
    assert not hub.asked("/resolve/")


def test_pickles_are_used_only_where_there_are_no_safetensors_and_are_never_executed(hub, tmp_path):
    import io

    files = hub.repos[PYTHIA]["step512"]
    tensors = load_tensors(files["model.safetensors"])
    buffer = io.BytesIO()
    torch.save(tensors, buffer)

    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "executed",))

    evil = io.BytesIO()
    torch.save({"gpt_neox.embed_in.weight": Evil()}, evil)
    hub.repos[PYTHIA]["step512"] = files | {"pytorch_model.bin": evil.getvalue()}
    models.load(spec(), "step512")
    assert not hub.asked(r"\.bin$")

    rest = {name: data for name, data in files.items() if name != "model.safetensors"}
    hub.repos[PYTHIA]["step1"] = rest | {"pytorch_model.bin": buffer.getvalue()}
    loaded = models.load(spec(), "step1")
    assert torch.equal(loaded.state_dict()["gpt_neox.embed_in.weight"], tensors["gpt_neox.embed_in.weight"].float())

    hub.repos[PYTHIA]["step4"] = rest | {"pytorch_model.bin": evil.getvalue()}
    with pytest.raises(CheckpointError, match="Pythia 1B at step4 could not be loaded: .*[Ww]eights.only"):
        models.load(spec(), "step4")
    assert not (tmp_path / "executed").exists()


def test_code_of_a_repository_is_never_run(hub, tmp_path):
    files = dict(hub.repos[PYTHIA]["step512"])
    config = json.loads(files["config.json"]) | {
        "model_type": "mine",
        "auto_map": {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"},
    }
    hub.repos[PYTHIA]["step512"] = files | {
        "config.json": json.dumps(config).encode(), "evil.py": f"open({str(tmp_path / 'executed')!r}, 'w')".encode(),
    }  # fmt: skip
    with pytest.raises(CheckpointError, match="could not be loaded"):
        models.load(spec(), "step512")
    assert not hub.asked("evil") and not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["pythia-1b", "olmo-1b-0724", "olmoe-1b-7b-0924"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_measured_and_recorded_and_olmo_warns(hub, tmp_path, name, dtype):
    content = yaml.safe_load((tmp_path / "panels" / "paper.yml").read_text())
    content["models"][name]["dtype"] = dtype
    (tmp_path / "panels" / "paper.yml").write_text(yaml.safe_dump(content, sort_keys=False))
    panel = load_panel("paper")
    revision = panel.model(name).revisions[-1].name
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = heads.measure(panel, name, revision)
    told = table.attrs["provenance"]
    assert told["dtype"] == dtype and told["sources"]["dtype"] == dtype and table["pr"].between(1, 16).all()
    assert any(f"OLMo in {dtype}" in str(w.message) for w in caught) == (name == "olmo-1b-0724")


def test_half_precision_on_mps_is_doubted_for_every_architecture():
    for architecture in ("gpt_neox", "olmo", "olmoe"):
        assert any("on MPS" in d for d in models.half_precision_doubts(architecture, "float16", "mps"))
        assert not models.half_precision_doubts(architecture, "float32", "mps")


def test_the_device_is_the_panels_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert models.device("auto") == models.device("cpu") == "cpu"
    with pytest.raises(models.DeviceError, match="device 'cuda' is not on this machine; there is cpu"):
        models.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert models.device("auto") == "cuda"
    monkeypatch.setenv("CIRCUITS_DEVICE", "cpu")
    assert models.device("cuda") == "cpu"


# Faults of a checkpoint -------------------------------------------------------------------


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_not_finite_are_refused_by_name(hub, value):
    def spoil(tensors):
        tensors["gpt_neox.layers.1.mlp.dense_4h_to_h.weight"][3, 4] = float(value)

    hub.repos[PYTHIA]["step512"] = edited_weights(hub.repos[PYTHIA]["step512"], edit=spoil)
    with pytest.raises(
        CheckpointError, match="step512: the weights gpt_neox.layers.1.mlp.dense_4h_to_h.weight hold NaN or inf"
    ):
        models.load(spec(), "step512")


def test_half_precision_that_overflows_is_refused(hub):
    hub.repos[OLMO]["step1000-tokens2B"] = edited_weights(
        hub.repos[OLMO]["step1000-tokens2B"], edit=lambda tensors: tensors["lm_head.weight"].mul_(1e7)
    )
    models.load(spec("olmo-1b-0724"), "step1000-tokens2B")
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="too large for this dtype: try float32"):
        models.load(spec("olmo-1b-0724", dtype="float16"), "step1000-tokens2B")


def test_another_architecture_under_a_name_is_refused(hub):
    from transformers import GPT2Config

    files = hub.repos[PYTHIA]["step512"]
    files["config.json"] = json.dumps(GPT2Config(architectures=["GPT2LMHeadModel"]).to_dict()).encode()
    with pytest.raises(
        CheckpointError, match="Pythia 1B at step512 is a GPT2LMHeadModel; the measurements are checked for"
    ):
        models.load(spec(), "step512")
    hub.repos[PYTHIA]["step4"] = hub.repos[OLMO]["step1000-tokens2B"]
    panel = load_panel("paper")
    heads.measure(panel, "pythia-1b", "step143000")
    with pytest.raises(
        CheckpointError, match="step4 has another config than step143000: .*model_type is 'olmo', not 'gpt_neox'"
    ):
        heads.measure(panel, "pythia-1b", "step4")


def test_revisions_with_the_same_weights_are_named_by_the_preflight_and_after_measuring(hub, capsys):
    # Under another commit and with another config text, as it has happened on the hub.
    files = hub.repos[PYTHIA]["step1"]
    hub.repos[PYTHIA]["step4"] = files | {"config.json": files["config.json"] + b" ", "README.md": b"other"}
    panel = load_panel("paper")
    warning = "Pythia 1B: step1 and step4 hold the same weights. At most one of them can be what its name says"
    assert run.main(["--panel", "paper", "--models", "pythia-1b", "--check"]) == 0
    assert warning in capsys.readouterr().out
    for revision in ("step1", "step4", "step16"):
        heads.measure(panel, "pythia-1b", revision)
    assert heads.same_weights(panel, "pythia-1b") == [["step1", "step4"]]
    arguments = ["--models", "pythia-1b", "--revisions", "step1", "step4", "--skip", "notebooks", "causal"]
    assert run.main(["--panel", "paper", *arguments]) == 0
    assert warning in capsys.readouterr().err
