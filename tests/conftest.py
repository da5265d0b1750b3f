"""A tiny panel that everything from the loader to the book can run on in seconds.

Its models are untrained: nothing is claimed of their circuits.
"""

import os
import shutil
import tempfile
from pathlib import Path

import hub_server

# Before huggingface_hub is imported: no test ever asks a hub that is not on this machine.
HUB = hub_server.Hub()
HUB_HOME = tempfile.mkdtemp(prefix="hub-home-")
os.environ |= {"HF_ENDPOINT": HUB.url, "HF_HOME": HUB_HOME, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
os.environ |= {"HF_HUB_DISABLE_TELEMETRY": "1", "OMP_NUM_THREADS": "1"}
for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN", "CIRCUITS_DEVICE", "CIRCUITS_PANELS"):
    os.environ.pop(name, None)

import pytest  # noqa: E402
import torch  # noqa: E402
import yaml  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

# The models are tiny: threads would cost more than they save, above all on a busy machine.
torch.set_num_threads(1)

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"

TINY = {"tiny-neox": "gpt_neox", "tiny-olmo": "olmo"}
TOKENS = {"step0": 0, "step10": 10_000, "step1000": 1_000_000}


def tiny_model(architecture, seed, **changes):
    """An untrained model of 3 layers of 2 heads; a large initialisation makes its attention uneven."""
    torch.manual_seed(seed)
    config = {
        "vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
        "initializer_range": 0.5, "tie_word_embeddings": False, "use_cache": False,
        "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
    }  # fmt: skip
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(architecture, **(config | changes))).eval()


def panel_content(folder):
    """The tiny panel as a dict, its models in a folder."""
    return {
        "name": "tiny",
        "title": "Untrained tiny models",
        "batch": {"n_sequences": 24, "seq_len": 64, "vocab_low": 4, "vocab_high": 64, "seed": 42},
        "models": {
            name: {
                "label": name.capitalize(),
                "path": str(folder / name),
                "counterpart": "olmo-1b-0724",
                "revisions": [{"name": r, "tokens": t} for r, t in TOKENS.items()],
            }
            for name in TINY
        },
    }


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items):
    """Tests of the built site are slow.  For pytest-xdist: tests that share what takes long to make run in one process."""
    for item in items:
        if "site" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group("site" if "site" in item.fixturenames else item.path.name))


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory):
    """Folder with the checkpoints of the tiny panel."""
    folder = tmp_path_factory.mktemp("models")
    for name, architecture in TINY.items():
        for seed, revision in enumerate(TOKENS):
            tiny_model(architecture, seed).save_pretrained(folder / name / revision)
    return folder


@pytest.fixture
def tiny_panel(tiny_models, tmp_path, monkeypatch):
    """Path of the tiny panel's file; results go to a folder of the test's own."""
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    path = tmp_path / "tiny.yml"
    path.write_text(yaml.safe_dump(panel_content(tiny_models), sort_keys=False))
    return str(path)


@pytest.fixture(scope="session")
def site(tiny_models, tmp_path_factory):
    """The tiny panel, run and built once with warnings as errors: folder of the HTML pages."""
    from lib.report import book
    from lib.report import execution as run

    folder = tmp_path_factory.mktemp("site")
    panel = folder / "tiny.yml"
    panel.write_text(yaml.safe_dump(panel_content(tiny_models), sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCUITS_RESULTS", str(folder / "results"))
        assert run.main(["--panel", str(panel), "--jobs", "2"]) == 0
        code, page = book.build(str(panel), folder)
    assert code == 0, "Jupyter Book gave warnings"
    return page.parent


@pytest.fixture(scope="session")
def _stocked():
    """The hub with every revision of the paper's panel under its real name, small and random."""
    panel = hub_server.reduced(yaml.safe_load((ROOT / "panels" / "paper.yml").read_text()))
    hub_server.stock(HUB, panel)
    yield panel
    shutil.rmtree(HUB_HOME, ignore_errors=True)


@pytest.fixture
def hub(_stocked, tmp_path, monkeypatch):
    """The hub, well-behaved, an empty cache, and a panel "paper" with a batch for small models; results aside."""
    repos = HUB.repos
    HUB.repos = {repo: {r: dict(files) for r, files in revisions.items()} for repo, revisions in repos.items()}
    HUB.reset()
    shutil.rmtree(Path(HUB_HOME) / "hub", ignore_errors=True)
    (tmp_path / "panels").mkdir()
    (tmp_path / "panels" / "paper.yml").write_text(yaml.safe_dump(_stocked, sort_keys=False))
    monkeypatch.setenv("CIRCUITS_PANELS", str(tmp_path / "panels"))
    monkeypatch.setenv("CIRCUITS_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr("lib.panels.hub.WAITS", (0, 0))
    yield HUB
    HUB.repos = repos
