"""The preflight: what is there, what it takes, and what is refused before anything is computed."""

from types import SimpleNamespace

import psutil
import pytest
import yaml
from hub_server import OLMO, OLMOE, PYTHIA
from transformers import AutoConfig

from lib.files import results_dir
from lib.panels import hub as client
from lib.panels.panel import load_panel
from lib.report import execution as run
from lib.tables import preflight

FULL_SIZE = {  # what the protocol says of the paper's models: config, parameters in all
    "pythia-1b": (dict(model_type="gpt_neox", intermediate_size=8192, num_attention_heads=8), 1_011_781_632),
    "olmo-1b": (dict(model_type="olmo", intermediate_size=8192, num_attention_heads=16), 1_279_787_008),
    "olmoe-1b-7b": (
        dict(model_type="olmoe", intermediate_size=1024, num_attention_heads=16, num_experts=64, num_experts_per_tok=8),
        6_919_161_856,
    ),
}


def config(name):
    changes = dict(FULL_SIZE[name][0])
    common = {"hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 50304, "tie_word_embeddings": False}
    return AutoConfig.for_model(changes.pop("model_type"), **common, **changes)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_the_papers_models_are_weighed_without_building_them(name):
    count, used = preflight.parameters(config(name))
    assert count == FULL_SIZE[name][1]
    if name == "olmoe-1b-7b":
        assert used == pytest.approx(1.28e9 - 103e6, rel=0.02)  # 1B active, but for the embedding
    else:
        assert used == count - 50304 * 2048


def test_the_work_is_two_operations_a_parameter_and_token():
    panel = load_panel("paper")
    head, ablated = preflight.work(panel, config("pythia-1b"))
    tokens = (panel.batch.n_sequences + 200) * panel.batch.seq_len
    assert head == pytest.approx(2 * tokens * 908_759_040, rel=0.05) and ablated > head


def check(hub_panel="paper", *arguments):
    return run.main(["--panel", hub_panel, "--check", *arguments])


def test_it_lists_every_revision_with_files_and_sizes_and_what_it_takes(hub, capsys):
    client.fetch(PYTHIA, "step512")
    assert check() == 0
    text = capsys.readouterr().out
    rows = {line.split()[1]: line for line in text.splitlines() if line.endswith("to measure")}
    panel = load_panel("paper")
    assert set(rows) >= {r.name for spec in panel.models.values() for r in spec.revisions}
    size = sum(len(hub.repos[OLMO]["step1000-tokens2B"][f]) for f in ("config.json", "model.safetensors"))
    assert hub.commit(OLMO, "step1000-tokens2B")[:10] in rows["step1000-tokens2B"]
    assert rows["step1000-tokens2B"].split()[3:6] == ["2", f"{size / 1e3:.3g}", "kB"]
    for words in (
        "download time",
        "head tables",
        "causal tables",
        "main memory",
        "disk of the cache",
        "Times assume 25 MB",
    ):
        assert words in text
    assert not hub.asked(r"\.safetensors$", "HEAD")[1:] and len(hub.asked(r"\.safetensors$")) == 1  # that of the fetch


def test_what_does_not_exist_is_refused_with_the_nearest_before_anything_is_computed(hub, capsys):
    del hub.repos[OLMO]["step285000-tokens597B"]
    assert check("paper", "--models", "olmo-1b-0724") == 2
    text = capsys.readouterr().out
    assert f"REFUSED: {OLMO} has no revision 'step285000-tokens597B'. Nearest: " in text
    assert run.main(["--panel", "paper", "--models", "olmo-1b-0724"]) == 2
    error = capsys.readouterr().err
    assert "step285000-tokens597B" in error and "Traceback" not in error
    assert not hub.asked(r"\.safetensors$") and not list(results_dir("paper").rglob("*.parquet"))


def test_a_hub_that_is_down_is_said_once(hub, monkeypatch, capsys):
    monkeypatch.setattr(client.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert check("paper", "--models", "pythia-1b") == 2
    assert capsys.readouterr().out.count("REFUSED") == 1


def test_a_revision_with_another_config_is_refused_and_not_its_neighbours(hub, capsys):
    config = hub.repos[PYTHIA]["step4"]["config.json"].replace(b'"num_attention_heads": 2', b'"num_attention_heads": 4')
    hub.repos[PYTHIA]["step4"]["config.json"] = config
    assert check("paper", "--models", "pythia-1b") == 2
    text = capsys.readouterr().out
    assert text.count("REFUSED:") == 1
    assert "Pythia 1B at step4 has another config than step143000: num_attention_heads is 4, not 2" in text


def test_another_architecture_is_refused(hub, capsys):
    for revision in hub.repos[PYTHIA].values():
        revision["config.json"] = b'{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
    assert check("paper", "--models", "pythia-1b", "--revisions", "step1") == 2
    assert "Pythia 1B at step1 is a GPT2LMHeadModel; the measurements are checked for" in capsys.readouterr().out


def test_too_little_disk_is_refused_unless_checkpoints_leave_it_again(hub, monkeypatch, capsys):
    one = len(hub.repos[PYTHIA]["step1"]["model.safetensors"])
    monkeypatch.setattr(client, "free_bytes", lambda _: client.SPARE + 3 * one)
    assert check("paper", "--models", "pythia-1b") == 2
    assert "use --evict, make room, or set HF_HOME to a folder on a larger disk" in capsys.readouterr().out
    assert check("paper", "--models", "pythia-1b", "--evict") == 0
    monkeypatch.setattr(client, "free_bytes", lambda _: client.SPARE + one + one // 2)
    assert check("paper", "--models", "pythia-1b", "--evict") == 0
    assert "the disk holds one checkpoint but not two" in capsys.readouterr().out
    monkeypatch.setattr(client, "free_bytes", lambda _: client.SPARE)
    assert check("paper", "--models", "pythia-1b", "--evict") == 2


def test_too_little_memory_is_refused_with_what_would_help(hub, monkeypatch, capsys):
    small = SimpleNamespace(total=1 << 30, available=1 << 29)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: small)
    assert check("paper", "--models", "pythia-1b", "--revisions", "step1") == 2
    assert "Pythia 1B takes 1.61 GB in float32 and cpu has 1.07 GB; 'dtype: bfloat16'" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused(hub, monkeypatch, capsys):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("CIRCUITS_DEVICE", "cpu")  # restored afterwards; --device sets it
    assert check("paper", "--models", "pythia-1b", "--revisions", "step1", "--device", "cuda") == 2
    assert "REFUSED: device 'cuda' is not on this machine" in capsys.readouterr().out


def test_local_checkpoints_are_looked_at_too(tiny_panel, tiny_models, tmp_path, capsys):
    assert check(tiny_panel) == 0
    assert capsys.readouterr().out.count("to measure") == 6 + 1
    content = yaml.safe_load(open(tiny_panel))
    content["models"]["tiny-olmo"]["revisions"].append({"name": "step9999", "tokens": 9_999_999})
    (tmp_path / "more.yml").write_text(yaml.safe_dump(content))
    assert check(str(tmp_path / "more.yml")) == 2
    assert "REFUSED: no checkpoint in" in capsys.readouterr().out


def test_the_papers_panel_is_the_protocols():
    panel = load_panel("paper")
    assert [spec.hub for spec in panel.models.values()] == [PYTHIA, OLMO, OLMOE]
    assert all(len(spec.revisions) == 10 for spec in panel.models.values())
    for revision in panel.models["pythia-1b"].revisions:
        assert revision.tokens == int(revision.name.removeprefix("step")) * 2_097_152
    for name in ("olmo-1b-0724", "olmoe-1b-7b-0924"):
        for revision in panel.models[name].revisions:
            assert revision.name.endswith(f"-tokens{revision.tokens // 10**9}B")
    from lib.paper import published

    assert set(published.MODELS) == set(panel.models)
    laptop = load_panel("laptop")
    assert laptop.batch == panel.batch
    assert all(spec.revisions == panel.models["pythia-1b"].revisions for spec in laptop.models.values())
