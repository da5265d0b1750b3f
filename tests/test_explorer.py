"""The head explorer: its attention rows against transformers' own, its data files, its pages."""

import json
import re

import numpy as np
import pytest
import torch
from conftest import TINY, TOKENS
from transformers import AutoModelForCausalLM

from lib.findings.counting import Counting, Trajectory
from lib.measure.metrics import CLASSES, class_positions, selectivity_column
from lib.panels.panel import Thresholds, load_panel
from lib.report import explorer as explorer_pages
from lib.report.contents import Report
from lib.tables import heads
from lib.tables import patterns as explorer


@pytest.fixture
def panel(tiny_panel):
    return load_panel(tiny_panel)


@pytest.fixture
def report(tiny_panel):
    return Report(tiny_panel)


@pytest.mark.parametrize("model", TINY)
def test_rows_are_the_attention_that_transformers_returns(panel, model):
    found = explorer.rows(explorer.measure(panel, model, "step10"))
    eager = AutoModelForCausalLM.from_pretrained(panel.models[model].folder("step10"), attn_implementation="eager")
    with torch.no_grad():
        attentions = eager(explorer.batch(panel).tokens, output_attentions=True).attentions
    expected = torch.cat([pattern[:, :, -1] for pattern in attentions], dim=1)
    assert found.shape == (4, 6, 64)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-5)


def test_rows_of_all_sequences_average_to_the_head_table(panel, monkeypatch):
    monkeypatch.setattr(explorer, "N_SEQUENCES", panel.batch.n_sequences)
    found = explorer.rows(explorer.measure(panel, "tiny-olmo", "step0"))
    table = heads.head_table(panel, "tiny-olmo", "step0")
    for cls, where in class_positions(64, explorer.batch(panel).first_a.numpy()).items():
        mean = np.take_along_axis(found, where[:, None, :], axis=-1).mean(axis=(0, 2))
        np.testing.assert_allclose(mean, table[f"attention_{cls}"], atol=1e-5)


def test_a_table_is_read_back_until_something_it_was_made_from_changes(panel, monkeypatch):
    assert explorer.read(panel, "tiny-neox", "step0") is None
    measured = explorer.measure(panel, "tiny-neox", "step0")
    np.testing.assert_array_equal(
        explorer.rows(explorer.read(panel, "tiny-neox", "step0")), explorer.rows(measured), strict=True
    )
    other = panel.model_copy(update={"batch": panel.batch.model_copy(update={"seed": 7})})
    assert explorer.read(other, "tiny-neox", "step0") is None
    monkeypatch.setattr(explorer, "N_SEQUENCES", 3)
    assert explorer.read(panel, "tiny-neox", "step0") is None
    monkeypatch.undo()


def test_a_file_that_cannot_be_read_counts_as_missing(panel):
    path = explorer.table_path(panel, "tiny-neox", "step0")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1 cut off")
    assert explorer.read(panel, "tiny-neox", "step0") is None


def test_a_row_that_is_not_finite_is_refused(panel, monkeypatch):
    def watch(model, tokens, see):
        rows = np.full((len(tokens), 3 * 2, 64), 1 / 64)
        rows[:, 3] = np.nan
        yield slice(0, len(tokens)), [rows]

    monkeypatch.setattr("lib.measure.attention.watch", watch)
    with pytest.raises(ValueError, match="layer 1 head 1 holds NaN"):
        explorer.measure(panel, "tiny-neox", "step0")
    assert not explorer.table_path(panel, "tiny-neox", "step0").exists()


def received(text):
    """What a data file hands over: (name, data)."""
    match = re.fullmatch(r'explorer\.receive\(("[^"]*"), (.*)\);\n', text)
    return json.loads(match[1]), json.loads(match[2])


def test_data_files_hold_what_was_measured(report):
    panel = report.panel
    for revision in TOKENS:
        explorer.measure(panel, "tiny-olmo", revision)
    files = explorer_pages.files(report)
    folder = explorer_pages.FOLDER
    names = {f"{folder}/{model}.js" for model in TINY} | {f"{folder}/tiny-olmo/{revision}.js" for revision in TOKENS}
    assert set(files) == names
    name, rows = received(files[f"{folder}/tiny-olmo/step10.js"])
    assert name == "tiny-olmo/step10"
    exact = explorer.rows(explorer.read(panel, "tiny-olmo", "step10"))
    assert np.abs(np.array(rows) / explorer_pages.SCALE - exact).max() <= 0.5 / explorer_pages.SCALE + 1e-7
    name, model = received(files[f"{folder}/tiny-olmo.js"])
    assert name == "tiny-olmo" and (model["layers"], model["heads"]) == (3, 2)
    assert [r["name"] for r in model["revisions"]] == list(TOKENS) and all(r["attention"] for r in model["revisions"])
    for step, revision in enumerate(TOKENS):
        for row in heads.read(panel, "tiny-olmo", revision).to_dict("records"):
            numbers = model["numbers"][f"L{row['layer']}H{row['head']}"]
            assert numbers["pr"][step] == pytest.approx(row["pr"], rel=1e-3)
            for cls in CLASSES:
                assert numbers["attention"][cls][step] == pytest.approx(row[f"attention_{cls}"], rel=1e-3)
                assert numbers["paper"][cls][step] == pytest.approx(row[selectivity_column(cls)], rel=1e-3)
                assert numbers["clean"][cls][step] == pytest.approx(row[selectivity_column(cls, "clean")], rel=1e-3)
    batch = explorer.batch(panel)
    for shown, tokens, target in zip(model["shown"], batch.tokens.tolist(), batch.targets.tolist()):
        assert shown["tokens"] == tokens and tokens[shown["a"]] == tokens[-1] and tokens[shown["a"] + 1] == target


def test_the_page_says_what_was_not_measured(report):
    page = explorer_pages.page(report)
    assert "The attention rows of Tiny-neox at step0, " in page and "have not been measured" in page
    assert f"python -m lib.run --panel {report.panel_argument}" in page and "<figure" not in page
    for model in TINY:
        for revision in TOKENS:
            explorer.measure(report.panel, model, revision)
    page = explorer_pages.page(Report(report.panel_argument))
    assert "not been measured" not in page and page.count('<figure class="drawn"') == 1


def trajectory(**selectivities):
    """One head at two revisions; selectivities not given are 1."""
    values = {selectivity_column(cls): np.ones((2, 1)) for cls in CLASSES}
    values |= {f"attention_{cls}": np.full((2, 1), 0.5) for cls in CLASSES}
    values |= {name: np.array(of, dtype=float)[:, None] for name, of in selectivities.items()}
    return Trajectory(("step0", "step1"), np.array([0, 10]), np.array([0]), np.array([0]), values)


def test_a_head_has_the_class_of_its_highest_selectivity_from_the_threshold_on():
    thresholds = Thresholds()
    heads_ = trajectory(selectivity_induction=[29.9, 60.0], selectivity_first_token=[20.0, 31.0])
    assert explorer_pages.classes_of(heads_, thresholds) == [[None], ["induction"]]
    before, after = (
        explorer_pages.sentence(heads_, Counting(thresholds), cls, step, 0)
        for step, cls in enumerate([None, "induction"])
    )
    assert before == "No class: nothing reaches 30x the baseline. Highest is induction with 29.9x."
    assert after == (
        "Induction head: 60x the baseline on B, the token after the first A. Also past 30x: BOS with 31x. "
        "In the induction circuit (past 50x)."
    )


def test_a_ratio_with_little_attention_behind_it_is_called_so():
    heads_ = trajectory(selectivity_first_token=[1.0, 1e6], attention_first_token=[0.5, 0.01])
    said = explorer_pages.sentence(heads_, Counting(Thresholds()), "first_token", 1, 0)
    assert said.startswith("BOS head: 1.0e+06x") and said.endswith(
        "Little attention is behind it: 1 %, under the floor of 5 %."
    )


def test_the_index_names_every_head_and_leads_to_the_explorer(report):
    page = explorer_pages.heads_page(report)
    for model in TINY:
        for layer in range(3):
            for head in range(2):
                assert f"#model={model}&amp;revision=step1000&amp;head=L{layer}H{head}" in page
