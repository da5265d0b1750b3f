"""Lessons 1 and 2: right answers pass, and every hint meets its mistake."""

import lesson_answers
import numpy as np
import pytest
import torch
from lesson_answers import hinted, right

from lib.lessons import lesson_1, lesson_2
from lib.measure import metrics


def test_hints_of_the_attention_pattern():
    scores = np.random.default_rng(1).normal(size=(6, 6))
    lower = np.tril(np.ones((6, 6), bool))
    # The oracle is PyTorch's.
    truth = torch.softmax(torch.tensor(scores).masked_fill(~torch.tensor(lower), -torch.inf), dim=-1)
    right(lesson_1.attention_pattern(truth, scores))
    right(lesson_1.attention_pattern(truth.numpy().round(4), scores))
    plain = torch.softmax(torch.tensor(scores), dim=-1).numpy()
    hinted(lesson_1.attention_pattern(plain, scores), "Nothing is masked")
    hinted(lesson_1.attention_pattern(np.where(lower, plain, 0), scores), "mask came after")
    hinted(lesson_1.attention_pattern(torch.softmax(torch.tensor(scores * lower), dim=-1), scores), "0 is no mask")
    masked = np.where(lower, scores, -np.inf)
    columns = np.exp(masked) / np.exp(masked).sum(axis=0)
    hinted(lesson_1.attention_pattern(columns, scores), "columns sum to 1")
    hinted(lesson_1.attention_pattern(masked, scores), "masked scores")
    hinted(lesson_1.attention_pattern(np.exp(masked), scores), "Divide each row")
    hinted(lesson_1.attention_pattern(np.triu(plain), scores), "above the diagonal")
    hinted(lesson_1.attention_pattern(lower / lower.sum(axis=1, keepdims=True), scores), "the weights are not")
    hinted(lesson_1.attention_pattern(np.full((6, 6), np.nan), scores), "not a number")
    hinted(lesson_1.attention_pattern(truth[0], scores), "The shape should be 6 x 6")


def sequence(rng, length, low, high, **broken):
    """A sequence of the batch, with one thing wrong if asked for."""
    a, b = rng.choice(np.arange(low, high), 2, replace=False)
    others = np.setdiff1d(np.arange(low, high), [a, b])
    tokens = rng.choice([a, *others] if "others" in broken else others, size=length)
    at = broken.get("at", rng.integers(20, length // 2))
    tokens[at], tokens[at + 1] = a, b
    tokens[-1] = broken.get("last", a)
    if "again" in broken:
        tokens[at + 5] = b
    return tokens


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda r, n, lo, hi: None, "returns nothing"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, others=True), "Redraw every other A"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, again=True), "B occurs more than once"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, last=-1), "outside"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=3), "at least 20"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=45), "below half the length, 32"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi, at=25), "same place"),
        (lambda r, n, lo, hi: sequence(np.random.default_rng(0), n, lo, hi), "All sequences are the same"),
        (lambda r, n, lo, hi: sequence(r, n + 1, lo, hi), "The shape should be 64"),
        (lambda r, n, lo, hi: np.r_[np.arange(lo, lo + 20), np.full(43, lo + 21), lo + 30], "does not occur earlier"),
        (lambda r, n, lo, hi: sequence(r, n, lo, hi) + 0.5, "whole numbers"),
        (lambda r, n, lo, hi: 1 / 0, "stopped with ZeroDivisionError"),
        (lambda r, n: None, "stopped with TypeError"),
        (lambda r, n, lo, hi: "A B", "array of numbers"),
    ],
)
def test_hints_of_the_sequence(make, words):
    right(lesson_1.sequence_maker(sequence))
    hinted(lesson_1.sequence_maker(make), words)


def test_hints_of_the_batch():
    batch = lesson_answers.batch()
    tokens, first_a = batch.tokens, batch.first_a
    a = tokens[:, -1:]
    # One sequence after another, by Python's own counting.
    truth = sum(row.tolist()[:-1].count(row.tolist()[-1]) != 1 for row in tokens)
    assert truth > 0, "the batch of the test should show the matter"
    assert str(truth) in right(lesson_1.other_a(truth, batch))
    hinted(lesson_1.other_a(len(tokens), batch), "leave the last position out")
    hinted(lesson_1.other_a(int((tokens[:, :-1] == a).sum()), batch), "all the A before the end")
    hinted(lesson_1.other_a(len(tokens) - truth, batch), "as they should be")
    hinted(lesson_1.other_a(1.5, batch), "whole number")
    right(lesson_1.induction_positions(first_a + 1, batch))
    assert all(row[i] == b for row, i, b in zip(tokens, first_a + 1, batch.targets))
    hinted(lesson_1.induction_positions(first_a, batch), "duplicate-token")
    hinted(lesson_1.induction_positions(first_a + 2, batch), "One too far")
    hinted(lesson_1.induction_positions(first_a - 1, batch), "One before A")
    hinted(lesson_1.induction_positions(np.full(40, 63), batch), "looks *from*")
    hinted(lesson_1.induction_positions(np.full(40, 62), batch), "previous token")
    hinted(lesson_1.induction_positions(batch.targets, batch), "These are tokens")
    hinted(lesson_1.induction_positions(int(first_a[0]) + 1, batch), "a single number")


def test_hints_of_reading_a_pattern():
    pattern = np.random.default_rng(0).dirichlet(np.ones(8), size=(1, 3, 8))
    right(lesson_1.previous_mass(pattern[0, 1, 7, 6], pattern, 1))
    hinted(lesson_1.previous_mass(pattern[0, 1, 6, 7], pattern, 1), "exchanged")
    hinted(lesson_1.previous_mass(pattern[0, 1, 7, 7], pattern, 1), "to itself")
    hinted(lesson_1.previous_mass(pattern[0, 1, 6, 6], pattern, 1), "last but one query")
    hinted(lesson_1.previous_mass(pattern[0, 2, 7, 6], pattern, 1), "That is head 2")
    hinted(lesson_1.previous_mass(pattern[0, 1, 7, 0], pattern, 1), "first token")


def test_attention_and_selectivity_of_lesson_2_are_those_of_the_head_tables():
    measured = lesson_answers.measured()
    table, given = measured["table"], (measured["attention"], measured["batch"])
    grid = table.pivot(index="layer", columns="head", values="attention_induction")
    right(lesson_2.induction_mass(grid, *given))
    top = table.loc[table["attention_induction"].idxmax()]
    head = int(top["layer"]), int(top["head"])
    right(lesson_2.induction_head(head, *given))
    right(lesson_2.induction_head(f"L{head[0]}H{head[1]}", *given))
    right(lesson_2.induction_selectivity(top["selectivity_induction"], *given, head))
    hinted(lesson_2.induction_selectivity(top["selectivity_clean_induction"], *given, head), "clean baseline")


def test_hints_of_lesson_2():
    planted, batch = lesson_answers.planted(), lesson_answers.batch()
    n, first_a = np.arange(40), batch.first_a.numpy()
    given = (planted, batch)
    each = planted[:, n, :, first_a + 1]
    grid = each.mean(axis=0)
    right(lesson_2.induction_mass(grid, *given))
    hinted(lesson_2.induction_mass(planted[:, n, :, first_a].mean(axis=0), *given), "A itself")
    hinted(lesson_2.induction_mass(planted[:, n, :, first_a + 2].mean(axis=0), *given), "One too far")
    hinted(lesson_2.induction_mass(each, *given), "single sequences")
    hinted(lesson_2.induction_mass(planted[:, :, :, first_a + 1].mean(axis=1), *given), "every sequence's position")
    hinted(lesson_2.induction_mass(each.sum(axis=0), *given), "sums")
    hinted(lesson_2.induction_mass(each.max(axis=0), *given), "largest")
    hinted(lesson_2.induction_mass(grid.T, *given), "exchanged")
    hinted(lesson_2.induction_mass(planted[..., first_a[0] + 1].mean(axis=1), *given), "position of the first one")
    hinted(lesson_2.induction_mass(grid[0], *given), "The shape should be 3 x 4")

    right(lesson_2.induction_head((2, 1), *given))
    right(lesson_2.induction_head(np.array([2, 1]), *given))
    hinted(lesson_2.induction_head((1, 2), *given), "the layer comes first")
    hinted(lesson_2.induction_head((2, 3), *given), "looks there too")
    hinted(lesson_2.induction_head((0, 2), *given), "strongest duplicate-token head")
    hinted(lesson_2.induction_head((1, 0), *given), "strongest previous-token head")
    hinted(lesson_2.induction_head((0, 0), *given), "largest entry")
    hinted(lesson_2.induction_head((3, 0), *given), "layers are 0 to 2 and heads 0 to 3")

    mine = planted[2, :, 1]
    mass, base = mine[n, first_a + 1].mean(), mine[:, metrics.paper_baseline_positions(64)].mean()
    given = (*given, (2, 1))
    right(lesson_2.induction_selectivity(mass / base, *given))
    right(lesson_2.induction_selectivity(float(f"{mass / base:.3g}"), *given))
    hinted(lesson_2.induction_selectivity(mass, *given), "This is the attention")
    hinted(lesson_2.induction_selectivity(base, *given), "This is the baseline")
    hinted(lesson_2.induction_selectivity(base / mass, *given), "Upside down")
    hinted(lesson_2.induction_selectivity(mass * 64, *given), "even spread")
    hinted(lesson_2.induction_selectivity(mass / (50 * base), *given), "not their sum")
    ratios = mine[n, first_a + 1] / mine[:, metrics.paper_baseline_positions(64)].mean(axis=1)
    hinted(lesson_2.induction_selectivity(ratios.mean(), *given), "mean of ratios")
    hinted(lesson_2.induction_selectivity(0.0, *given), "divide it by its mean")


def test_hints_of_the_moved_question():
    measured = lesson_answers.measured()
    batch, bridge = measured["batch"], measured["bridge"]
    n, asked = np.arange(len(batch.tokens)), np.full(len(batch.tokens), 50)
    moved = batch.tokens.clone()
    moved[:, -1] = moved[:, 50]
    given = (bridge, moved, (2, 0), asked, batch)
    with torch.no_grad():
        _, cache = bridge.run_with_cache(moved, names_filter="blocks.2.attn.hook_pattern")
    rows = cache["blocks.2.attn.hook_pattern"][:, 0, -1].numpy()
    truth = sum(int(row.argmax()) == 51 for row in rows) / len(rows)
    assert "this is none" in right(lesson_2.moved_question(truth, *given))  # untrained
    if truth:
        hinted(lesson_2.moved_question(0, *given), "run the bridge again")
    hinted(lesson_2.moved_question(rows[n, 51].mean(), *given), "mean attention")
    hinted(lesson_2.moved_question(1 - truth, *given), "elsewhere")
    hinted(lesson_2.moved_question(0.123, *given), "compare its")


class Copier:
    """A bridge whose head 1 of layer 0 does induction, but in the first sequence."""

    def run_with_cache(self, tokens, names_filter):
        pattern = torch.zeros(len(tokens), 2, tokens.shape[1], tokens.shape[1])
        for i, row in enumerate(tokens.tolist()):
            pattern[i, 1, -1, row.index(row[-1]) + 1 if i else 7] = 1
        return None, {names_filter: pattern}


def test_hints_of_the_moved_question_to_a_head_that_does_induction():
    batch = lesson_answers.batch()
    tokens = batch.tokens.clone()
    tokens[:, 50] = 999  # once in each sequence
    moved = tokens.clone()
    moved[:, -1] = 999
    given = (Copier(), moved, (0, 1), np.full(40, 50), batch)
    assert "Another question, another answer" in right(lesson_2.moved_question(39 / 40, *given))
    hinted(lesson_2.moved_question(39, *given), "their number")
    hinted(lesson_2.moved_question(97.5, *given), "multiply by 100")
    hinted(lesson_2.moved_question(1 / 40, *given), "elsewhere")
    hinted(lesson_2.moved_question(0, *given), "run the bridge again, on `moved`")
