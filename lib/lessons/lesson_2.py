"""The checkers of lesson 2: an induction head by hand."""

import numpy as np

from lib import measure
from lib.lessons.answers import Hint, as_array, as_head, as_number, as_numbers, exercise, judged, top_head


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
    shape = as_numbers(answer).shape
    if shape in (each.shape, (n_layers, n, n_heads)):
        raise Hint("single sequences")
    if shape in ((n_layers, n, n_heads, n), (n_layers, n_heads, n)):
        raise Hint("every position")
    if n_layers != n_heads and shape == (n_heads, n_layers):
        raise Hint("exchanged")
    mistakes = {
        "A itself": _at(attention, first_a),
        "one too far": _at(attention, np.minimum(first_a + 2, seq_len - 1)),
        "sums": truth * n,
        "exchanged": truth.T,
        "the first sequence's position": attention[..., first_a[0] + 1].mean(axis=1),
        "largest": each.max(axis=0),
        "medians": np.median(each, axis=0),
    }
    return judged(as_array(answer, truth.shape), truth, mistakes)


@exercise("2.2")
def induction_head(answer, attention, batch):
    """The answer is the head (layer, head) that gives the induction position most."""
    attention, first_a = _attention(attention, batch)
    n_layers, n, n_heads, seq_len = attention.shape
    grid = _at(attention, first_a + 1)
    truth = top_head(grid)
    answer = as_head(answer, n_layers, n_heads)
    mistakes = {
        "exchanged": truth[::-1],
        "counted from 1": (truth[0] + 1, truth[1] + 1),
        "previous-token head": top_head(_at(attention, np.full(n, seq_len - 2))),
        "duplicate-token head": top_head(_at(attention, first_a)),
    }
    otherwise = "weaker" if grid[answer] >= grid[truth] / 2 else "elsewhere"
    return judged(answer, truth, mistakes, same=np.array_equal, otherwise=otherwise, head=answer, mass=grid[answer])


@exercise("2.3")
def induction_selectivity(answer, attention, batch, head):
    """The answer is the induction selectivity of a head (layer, head) under the paper's baseline."""
    attention, first_a = _attention(attention, batch)
    seq_len = attention.shape[-1]
    mine = attention[head[0], :, head[1]]  # [sequence, key]
    n = np.arange(len(mine))
    each = mine[n, first_a + 1]
    per_sequence = mine[:, measure.metrics.paper_baseline_positions(seq_len)].mean(axis=1)
    base = per_sequence.mean()
    clean = np.average(mine, axis=1, weights=measure.metrics.clean_baseline_mask(seq_len, first_a)).mean()
    mass, truth = each.mean(), float(measure.metrics.selectivity(each.mean(), base))
    mistakes = {
        "attention": mass,
        "baseline": base,
        "upside down": base / max(mass, 1e-300),
        "even spread": mass * seq_len,
        "clean baseline": mass / clean,
        "sum as baseline": mass / (50 * base),
        "mean of ratios": np.mean(each / np.maximum(per_sequence, 1e-300)),
        "not paired": measure.metrics.selectivity(mine[:, first_a].mean(), base),
        "A itself": measure.metrics.selectivity(mine[n, first_a].mean(), base),
    }
    return judged(as_number(answer), truth, mistakes, head=head, ratio=truth, base=base, mass=mass)


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
    mistakes = {
        "never": 0.0,
        "a number": truth * len(rows),
        "per cent": 100 * truth,
        "mean attention": rows[n, asked + 1].mean(),
        "at the token asked for": (top == asked).mean(),
        "still behind A": (top == batch.first_a.numpy() + 1).mean(),
        "elsewhere": 1 - truth,
    }
    said = "an induction head" if truth > 0.5 else "no induction head"
    return judged(as_number(answer), truth, mistakes, said=said, share=truth, n=len(rows), head=head)
