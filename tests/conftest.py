"""A tiny panel that everything from the loader to the book can run on in seconds.

Its models are untrained: nothing is claimed of their circuits.
"""

from pathlib import Path

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM

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
    from lib import book, run

    folder = tmp_path_factory.mktemp("site")
    panel = folder / "tiny.yml"
    panel.write_text(yaml.safe_dump(panel_content(tiny_models), sort_keys=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CIRCUITS_RESULTS", str(folder / "results"))
        assert run.main(["--panel", str(panel), "--jobs", "2"]) == 0
        code, page = book.build(str(panel), folder)
    assert code == 0, "Jupyter Book gave warnings"
    return page.parent
