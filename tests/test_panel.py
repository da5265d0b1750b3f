"""A wrong panel is refused with the file, the place and what was expected."""

import copy

import pytest
import yaml

from lib.files import ROOT
from lib.panels.panel import PanelError, load_panel

GOOD = {
    "name": "good",
    "title": "A panel",
    "batch": {"n_sequences": 10, "seq_len": 128, "vocab_low": 0, "vocab_high": 128, "seed": 42},
    "models": {
        "m": {"label": "M", "path": "models/m", "revisions": [{"name": "a", "tokens": 0}, {"name": "b", "tokens": 10}]}
    },
}


def load(tmp_path, content):
    path = tmp_path / "p.yml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return load_panel(path)


def changed(*place, to=None, delete=False):
    """A copy of the good panel with one value changed or removed."""
    content = copy.deepcopy(GOOD)
    at = content
    for key in place[:-1]:
        at = at[key]
    if delete:
        del at[place[-1]]
    else:
        at[place[-1]] = to
    return content


@pytest.mark.parametrize("path", sorted((ROOT / "panels").glob("*.yml")), ids=lambda p: p.stem)
def test_the_projects_own_panels_are_valid(path):
    panel = load_panel(path.stem)
    assert panel.name == path.stem


def test_defaults_are_the_papers_thresholds(tmp_path):
    thresholds = load(tmp_path, GOOD).thresholds
    assert (thresholds.classify, thresholds.induction_circuit, thresholds.previous_token_circuit) == (30, 50, 100)


@pytest.mark.parametrize(
    "content, message",
    [
        (changed("colour", to="red"), "p.yml: colour: unknown key; expected one of name, title, batch, thresholds, device, models"),
        (changed("batch", "n", to=1), "p.yml: batch.n: unknown key; expected one of n_sequences, seq_len"),
        (changed("models", "m", "tokens", to=1), "p.yml: models.m.tokens: unknown key; expected one of hub, path, label"),
        (changed("models", "m", "revisions", 1, "step", to=1), r"models.m.revisions\[1\].step: unknown key; expected one of name, tokens"),
        (changed("models", "m", "revisions", 1, "name", to="a"), r"p.yml: models.m: revisions\[1\]: duplicate revision 'a'; expected each name once"),
        (changed("models", "m", "revisions", 0, "tokens", to=10), r"models.m: revisions\[1\]: 'b' has 10 tokens after 10; expected revisions in ascending order"),
        (changed("models", "m", "revisions", 0, "tokens", to=11), "expected revisions in ascending order"),
        (changed("models", "m", "revisions", 1, "tokens", delete=True), r"p.yml: models.m.revisions\[1\].tokens: missing; expected a value"),
        (changed("models", "m", "revisions", 1, "tokens", to="10B"), r"models.m.revisions\[1\].tokens: input should be a valid integer; found '10B'"),
        (changed("models", "m", "revisions", 1, "tokens", to=-1), r"revisions\[1\].tokens: input should be greater than or equal to 0; found -1"),
        (changed("models", "m", "path", delete=True), "models.m: expected exactly one of 'hub'"),
        (changed("models", "m", "hub", to="a/b"), "models.m: expected exactly one of 'hub'"),
        (changed("models", to={}), "p.yml: models: .* at least 1 item"),
        (changed("batch", "seq_len", to=56), "p.yml: batch.seq_len: input should be greater than or equal to 57; found 56"),
        (changed("batch", "vocab_high", to=2), "p.yml: batch.vocab_high: input should be"),
        (changed("thresholds", to={"classify": "30x"}), "p.yml: thresholds.classify: input should be a valid number; found '30x'"),
        (changed("device", to="gpu"), "p.yml: device: input should be 'auto', 'cuda', 'mps' or 'cpu'; found 'gpu'"),
        (changed("models", "m", "dtype", to="fp16"), "p.yml: models.m.dtype: input should be 'float32', 'bfloat16' or 'float16'; found 'fp16'"),
        (changed("name", to="My Panel"), "p.yml: name: "),
        ("name: a\nname: b\n", "p.yml: not valid YAML: duplicate key 'name'"),
        ("name: [", "p.yml: not valid YAML"),
        ("just text", "p.yml: file: "),
    ],
)  # fmt: skip
def test_wrong_panels(tmp_path, content, message):
    with pytest.raises(PanelError, match=message):
        load(tmp_path, content)


def test_names_that_do_not_exist_are_answered_with_the_nearest(tmp_path):
    panel = load(tmp_path, GOOD)
    with pytest.raises(PanelError, match="no model in panel 'good' is called 'mm'. Nearest: m."):
        panel.model("mm")
    with pytest.raises(PanelError, match="no revision of M is called 'zzz'. Known: a, b."):
        panel.model("m").revision("zzz")
    with pytest.raises(PanelError, match="no panel 'minni': panels/minni.yml does not exist. Nearest: mini"):
        load_panel("minni")
