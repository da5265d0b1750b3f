"""Corpora have the statistics they say; training is reproducible to the bit and leaves nothing half-made."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from lib.panels import mini_models, training
from lib.panels.corpus import Corpus, Domain, sample_domain
from lib.panels.panel import Model, Revision, load_panel
from lib.panels.recipes import RECIPES

TRAITS = {
    "pythia-mini": {"model_type": "gpt_neox", "use_parallel_residual": True, "attention_bias": True},
    "olmo-mini": {"model_type": "olmo", "clip_qkv": 8.0, "attention_bias": False, "hidden_act": "silu"},
    "olmoe-mini": {"model_type": "olmoe", "norm_topk_prob": False, "attention_bias": False},
}


# Corpora ----------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    least=st.integers(1, 20),
    near_share=st.sampled_from([0.0, 0.5, 1.0]),
    span=st.sampled_from([(2, 4), (8, 8), (3, 30)]),
)
def test_a_copied_token_stands_earlier_in_its_sequence(seed, least, near_share, span):
    domain = Domain(copy_start=0.3, span=span, near_share=near_share, least_distance=least)
    tokens, copied = sample_domain(domain, np.random.default_rng(seed), 3, 60, 5000)
    for row, mask in zip(tokens, copied):
        for t in np.flatnonzero(mask):
            assert row[t] in row[: t - least + 1]
        assert not mask[:least].any()


def test_spans_are_as_long_as_they_say():
    tokens, copied = sample_domain(Domain(copy_start=0.02, span=(8, 12)), np.random.default_rng(0), 200, 400, 10_000)
    lengths = []
    for mask in copied:
        edges = np.flatnonzero(np.diff(np.r_[0, mask, 0].astype(int))).reshape(-1, 2)
        lengths += [b - a for a, b in edges if b < 400]
    lengths = np.array(lengths)
    # Two copies may touch; among single ones all lengths are as likely.
    single = lengths[lengths <= 12]
    assert single.min() == 8 and len(single) > 0.8 * len(lengths)
    assert single.mean() == pytest.approx(10, abs=0.2)


def test_copies_start_as_often_as_they_say():
    _, copied = sample_domain(Domain(copy_start=0.05, span=(1, 1)), np.random.default_rng(0), 200, 500, 10_000)
    assert copied[:, 1:].mean() == pytest.approx(0.05, abs=0.003)


def test_bigram_skip_title_zipf_and_vocabulary():
    rng = np.random.default_rng(1)
    tokens, _ = sample_domain(Domain(copy_start=0, bigram=0.7), rng, 50, 400, 64)
    followers = {a: np.bincount(tokens[:, 1:][tokens[:, :-1] == a], minlength=64) for a in range(64)}
    assert np.mean([c.max() / c.sum() for c in followers.values()]) == pytest.approx(0.7, abs=0.05)
    tokens, _ = sample_domain(Domain(copy_start=0, skip=0.7), rng, 50, 400, 64)
    two_on = {a: np.bincount(tokens[:, 2:][tokens[:, :-2] == a], minlength=64) for a in range(64)}
    assert np.mean([c.max() / c.sum() for c in two_on.values()]) == pytest.approx(0.7, abs=0.05)
    tokens, _ = sample_domain(Domain(copy_start=0, title=0.2), rng, 200, 100, 5000)
    assert (tokens[:, 1:] == tokens[:, :1]).mean() == pytest.approx(0.2, abs=0.01)
    tokens, _ = sample_domain(Domain(copy_start=0, zipf=1.0), rng, 50, 400, 64)
    counts = np.bincount(tokens.ravel(), minlength=64)
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.25)
    tokens, _ = sample_domain(Domain(vocabulary=(0.25, 0.5)), rng, 20, 100, 64)
    assert tokens.min() == 16 and tokens.max() == 31


def test_a_mixture_draws_its_domains_by_share_and_is_reproducible():
    corpus = Corpus("two", {"low": Domain(share=3, vocabulary=(0, 0.5)), "high": Domain(share=1, vocabulary=(0.5, 1))})
    tokens, copied = corpus.sample(np.random.default_rng(0), 400, 20, 64)
    assert tokens.shape == copied.shape == (400, 20)
    assert (tokens.max(axis=1) < 32).mean() == pytest.approx(0.75, abs=0.07)
    again, _ = corpus.sample(np.random.default_rng(0), 400, 20, 64)
    assert (tokens == again).all()


# Models and training ------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_mini_models_have_their_sisters_traits(name):
    model = RECIPES[name].build()
    config = model.config
    for trait, value in TRAITS[name].items():
        assert getattr(config, trait) == value
    assert not config.tie_word_embeddings and config.num_hidden_layers >= 4
    assert config.num_hidden_layers * config.num_attention_heads >= 16
    names = dict(model.named_parameters())
    if name == "pythia-mini":
        assert config.rope_parameters["partial_rotary_factor"] < 1
        assert "gpt_neox.layers.0.input_layernorm.bias" in names
    if name == "olmo-mini":
        assert not [n for n in names if "norm" in n or n.endswith("bias")]
    if name == "olmoe-mini":
        assert "model.layers.0.self_attn.q_norm.weight" in names and config.num_experts > config.num_experts_per_tok


def short(name, steps=4):
    """A recipe's first steps only."""
    recipe = RECIPES[name]
    recipe = replace(recipe, batch_tokens=512)
    return recipe, [Revision(name="start", tokens=0), Revision(name="end", tokens=512 * steps)]


@pytest.mark.parametrize("name", RECIPES)
def test_the_same_seed_gives_the_same_weights_bit_for_bit(name):
    recipe, revisions = short(name)
    saved = []
    for _ in range(2):
        training.train(
            recipe, revisions, lambda model, r: saved.append({k: v.clone() for k, v in model.state_dict().items()})
        )
    first_start, first_end, second_start, second_end = saved
    assert all(torch.equal(first_start[k], second_start[k]) for k in first_start)
    assert all(torch.equal(first_end[k], second_end[k]) for k in first_end)
    assert any(not torch.equal(first_start[k], first_end[k]) for k in first_end)
    other = []
    training.train(replace(recipe, seed=1), revisions[:1], lambda model, r: other.append(model.state_dict()))
    assert any(not torch.equal(first_start[k], other[0][k]) for k in first_start)


def test_a_revision_between_two_steps_is_refused():
    recipe, _ = short("olmo-mini")
    with pytest.raises(ValueError, match="odd: 700 tokens are no whole number of steps of 512"):
        training.train(recipe, [Revision(name="start", tokens=0), Revision(name="odd", tokens=700)], lambda *_: None)


def test_learning_rate_warms_up_and_decays_to_a_tenth():
    recipe = replace(RECIPES["olmo-mini"], learning_rate=1.0, warm_up_steps=10)
    rates = [training.learning_rate(recipe, step, 1000) for step in range(1001)]
    assert rates[0] == pytest.approx(0.1) and rates[:10] == sorted(rates[:10])
    assert rates[9:] == sorted(rates[9:], reverse=True) and max(rates) == rates[9] and rates[-1] == pytest.approx(0.1)


def test_contexts_grow():
    recipe = replace(RECIPES["olmo-mini"], contexts={0: 32, 100: 64, 200: 128})
    assert [training.context_at(recipe, t) for t in (0, 99, 100, 199, 200, 999)] == [32, 32, 64, 64, 128, 128]


@pytest.fixture
def short_model(tmp_path, monkeypatch):
    """olmo-mini with a short recipe, to be trained into a folder of the test's own."""
    recipe, revisions = short("olmo-mini")
    monkeypatch.setitem(RECIPES, "olmo-mini", recipe)
    return Model(label="Short", path=str(tmp_path / "short"), revisions=revisions)


def test_checkpoints_are_ordinary_transformers_folders(short_model, tmp_path):
    mini_models.train_to_disk("olmo-mini", short_model, lambda **_: None)
    for revision in short_model.revisions:
        folder = tmp_path / "short" / revision.name
        assert (folder / "model.safetensors").is_file()
        assert type(AutoModelForCausalLM.from_pretrained(folder)).__name__ == "OlmoForCausalLM"
    assert mini_models.is_trained("olmo-mini", short_model)
    assert json.loads((tmp_path / "short" / "training.json").read_text())["recipe_sha256"]


def test_a_run_that_was_stopped_leaves_no_model_that_counts_as_trained(short_model, tmp_path):
    def stop(**_):
        raise KeyboardInterrupt

    original = training.REPORT_EVERY
    training.REPORT_EVERY = 1
    try:
        with pytest.raises(KeyboardInterrupt):
            mini_models.train_to_disk("olmo-mini", short_model, stop)
    finally:
        training.REPORT_EVERY = original
    assert not (tmp_path / "short").exists() and not mini_models.is_trained("olmo-mini", short_model)
    mini_models.train_to_disk("olmo-mini", short_model, lambda **_: None)
    assert mini_models.is_trained("olmo-mini", short_model)
    assert [p.name for p in tmp_path.iterdir()] == ["short"]


def test_a_changed_recipe_means_training_again(short_model, monkeypatch):
    mini_models.train_to_disk("olmo-mini", short_model, lambda **_: None)
    monkeypatch.setitem(RECIPES, "olmo-mini", replace(RECIPES["olmo-mini"], learning_rate=1e-5))
    assert not mini_models.is_trained("olmo-mini", short_model)


def test_the_mini_panel_fits_its_recipes():
    panel = load_panel("mini")
    for name, spec in panel.models.items():
        assert len(spec.revisions) == 10 and spec.revisions[0].tokens == 0
        assert all(r.tokens % RECIPES[name].batch_tokens == 0 for r in spec.revisions)
        assert max(RECIPES[name].contexts) < spec.revisions[-1].tokens
        assert panel.batch.vocab_high <= RECIPES[name].vocab_size


def test_a_wrong_panel_is_told_without_a_traceback(capsys):
    assert mini_models.main(["--panel", "minni"]) == 2 and "Nearest: mini" in capsys.readouterr().err


def test_models_without_a_recipe_are_left_alone(tiny_panel):
    assert mini_models.train_panel(tiny_panel, 1) == {}


def test_a_folder_made_by_somebody_else_is_never_replaced(tiny_panel, tiny_models, tmp_path, capsys):
    content = yaml.safe_load(open(tiny_panel))
    content["models"] = {"olmo-mini": content["models"]["tiny-olmo"]}
    (tmp_path / "named.yml").write_text(yaml.safe_dump(content))
    assert mini_models.main(["--panel", str(tmp_path / "named.yml")]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tiny_models / "tiny-olmo" / "step0" / "config.json").is_file()
