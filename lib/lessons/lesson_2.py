"""The checkers of lesson 2: an induction head by hand."""

import numpy as np

from lib import measure
from lib.formatting import name_of, percent, times
from lib.lessons.answers import Hint, as_array, as_head, as_number, as_numbers, close, exercise, look_for, top_head


def _at(attention, positions):
    """Mean over sequences of the attention at one position each: [layer, sequence, head, key] -> [layer, head]."""
    return attention[:, np.arange(attention.shape[1]), :, positions].mean(axis=0)


def _attention(attention, batch):
    """(attention as float64, index of the first A)."""
    return np.asarray(attention, dtype=float), batch.first_a.numpy()


@exercise("2.1")
def induction_mass(answer, attention, batch):
    """attention [layer, sequence, head, key] of the last query: the answer is the mean to the induction position, [layer, head]."""
    attention, first_a = _attention(attention, batch)
    n_layers, n, n_heads, seq_len = attention.shape
    each = attention[:, np.arange(n), :, first_a + 1]  # [sequence, layer, head]
    truth = each.mean(axis=0)
    meaning = "one row a layer and one column a head"
    shape = as_numbers(answer, meaning).shape
    if shape in (each.shape, (n_layers, n, n_heads)):
        raise Hint("These are the single sequences. Take the mean over them: one number a layer and head remains.")
    if shape in ((n_layers, n, n_heads, n), (n_layers, n_heads, n)):
        raise Hint("Each sequence was read at every sequence's position. Pair `np.arange(n)` with the positions.")
    if n_layers != n_heads and shape == (n_heads, n_layers):
        raise Hint("Layers and heads are exchanged: one row a layer is expected.")
    answer = as_array(answer, truth.shape, meaning)
    if close(answer, truth):
        return "This is the column `attention_induction` of the head tables, for these sequences."
    look_for(
        answer,
        [
            (_at(attention, first_a), "This is the attention to A itself, at `first_a`. B stands one behind it."),
            (_at(attention, np.minimum(first_a + 2, seq_len - 1)), "One too far: the attention to the token after B."),
            (truth * n, "These are sums over the sequences. Divide by their number."),
            (truth.T, "Layers and heads are exchanged: one row a layer is expected."),
            (
                attention[..., first_a[0] + 1].mean(axis=1),
                "All sequences were read at the position of the first one. A stands elsewhere in each.",
            ),
            (each.max(axis=0), "These are the largest values. The mean is asked."),
            (np.median(each, axis=0), "These are medians. The mean is asked."),
        ],
    )
    raise Hint(
        "For sequence i take key `first_a[i] + 1`: `attention[:, np.arange(n), :, first_a + 1]` pairs sequences and "
        "positions, and puts the sequences first."
    )


@exercise("2.2")
def induction_head(answer, attention, batch):
    """The answer is the head (layer, head) that gives the induction position most."""
    attention, first_a = _attention(attention, batch)
    n_layers, n, n_heads, seq_len = attention.shape
    grid = _at(attention, first_a + 1)
    truth = top_head(grid)
    answer = as_head(answer, n_layers, n_heads)
    if answer == truth:
        return f"{name_of(*truth)} puts {percent(grid[truth])} of its attention there, averaged over sequences."
    if answer == truth[::-1]:
        raise Hint("The right numbers in the wrong order: the layer comes first.")
    if answer == (truth[0] + 1, truth[1] + 1):
        raise Hint("Count layers and heads from 0, as the array does.")
    for name, positions in (("previous-token", np.full(n, seq_len - 2)), ("duplicate-token", first_a)):
        if answer == top_head(_at(attention, positions)):
            raise Hint(
                f"{name_of(*answer)} is the strongest {name} head. Which gives most to the position after the first A?"
            )
    if grid[answer] >= grid[truth] / 2:
        raise Hint(f"{name_of(*answer)} looks there too, with {percent(grid[answer])}. One head gives it more.")
    raise Hint(
        f"{name_of(*answer)} gives the induction position {percent(grid[answer])}. Look for the largest entry of the "
        "grid of exercise 2.1."
    )


@exercise("2.3")
def induction_selectivity(answer, attention, batch, head):
    """The answer is the induction selectivity of a head (layer, head) under the paper's baseline."""
    attention, first_a = _attention(attention, batch)
    seq_len = attention.shape[-1]
    mine = attention[head[0], :, head[1]]  # [sequence, key]
    each = mine[np.arange(len(mine)), first_a + 1]
    per_sequence = mine[:, measure.metrics.paper_baseline_positions(seq_len)].mean(axis=1)
    base = per_sequence.mean()
    clean = np.average(mine, axis=1, weights=measure.metrics.clean_baseline_mask(seq_len, first_a)).mean()
    mass, truth = each.mean(), float(measure.metrics.selectivity(each.mean(), base))
    answer = as_number(answer, "how many times the baseline")
    if close(answer, truth):
        return f"{name_of(*head)}: {times(truth)} the baseline of {base:.3g} a position, with {percent(mass)} of the attention."
    look_for(
        answer,
        [
            (mass, "This is the attention. Divide it by the baseline."),
            (base, "This is the baseline. Divide the attention by it."),
            (base / max(mass, 1e-300), "Upside down: attention over baseline."),
            (
                mass * seq_len,
                "An even spread, 1/T, is another baseline. The paper's is the mean over its 50 positions.",
            ),
            (mass / clean, "This is against the clean baseline. Here the paper's is asked: its 50 positions."),
            (mass / (50 * base), "The baseline is the mean over the 50 positions, not their sum."),
            (
                np.mean(each / np.maximum(per_sequence, 1e-300)),
                "A mean of ratios is not the ratio of means. Average over sequences first, then divide.",
            ),
            (
                measure.metrics.selectivity(mine[:, first_a].mean(), base),
                "Each sequence has its own position of A: pair sequences with positions.",
            ),
            (
                measure.metrics.selectivity(mine[np.arange(len(mine)), first_a].mean(), base),
                "This is for A itself; B is one on.",
            ),
        ],
    )
    raise Hint(
        "Take the head's mean attention to the induction position, and divide it by its mean over all sequences and the "
        "50 positions."
    )


@exercise("2.4")
def moved_question(answer, bridge, moved, head, asked, batch):
    """In which share of sequences does a head's last query look most behind the token that is now asked for?

    moved: [n, T] tokens that end in the token at position asked [n].
    """
    layer, number = head
    name = f"blocks.{layer}.attn.hook_pattern"
    _, cache = bridge.run_with_cache(moved, names_filter=name)
    rows = cache[name][:, number, -1].numpy(force=True)  # [sequence, key]
    n, top = np.arange(len(rows)), rows.argmax(axis=1)
    truth = (top == asked + 1).mean()
    answer = as_number(answer, "a share between 0 and 1")
    if close(answer, truth):
        said = f"In {percent(truth)} of {len(rows)} sequences {name_of(*head)} looks behind the token asked for."
        return said + (
            " Another question, another answer." if truth > 0.5 else " An induction head would in most: this is none."
        )
    first_a = batch.first_a.numpy()
    look_for(
        answer,
        [
            (0.0, "Never? `attention` holds the old question: run the bridge again, on `moved`."),
            (truth * len(rows), "That is their number. Divide by the number of sequences."),
            (100 * truth, "A share is between 0 and 1: do not multiply by 100."),
            (
                rows[n, asked + 1].mean(),
                "That is the mean attention. In how many sequences is it the *largest* of its row?",
            ),
            ((top == asked).mean(), "That is at the token asked for. What followed it stands one behind."),
            ((top == first_a + 1).mean(), "That is how often it still looks behind A. Which position is right now?"),
            (1 - truth, "That is the share in which it looks elsewhere."),
        ],
    )
    raise Hint(
        "Run the bridge on `moved` with a cache, take this layer's `hook_pattern` at `[:, head, -1]`, and compare its "
        "`argmax(axis=1)` with `asked + 1`."
    )
