"""One forward pass a sequence, reduced on the way to one row a head."""

import numpy as np
import pandas as pd

from lib.measure import bootstrap, metrics
from lib.measure.attention import Attention, watch
from lib.measure.batch import InductionBatch
from lib.measure.model import CausalLM, Summary, Tensor


def measure_heads(model: CausalLM, batch: InductionBatch) -> pd.DataFrame:
    """Measure every head of a model on an induction batch.

    model: a transformers causal LM in memory (GPTNeoX, Olmo or Olmoe), not wrapped by
    TransformerLens; it is given back as it was.  batch: lib.measure.batch.InductionBatch.

    Returns a DataFrame, one row a head: layer, head, attention_<class> (mean
    attention mass of the last query, 0..1), baseline_paper, baseline_clean (mean
    mass a position), selectivity_<class> (paper baseline), selectivity_clean_<class>
    (both "times the baseline"), sink_mass (mean attention of all queries to position
    0; Gu et al., When Attention Sink Emerges), pr and pr_centred (effective rank of z
    at the last position), pr_ceiling (PR of Gaussian noise of that size),
    induction_ceiling (induction selectivity of a perfect head under the paper's
    baseline) and n_sequences.  Columns <quantity>_low and <quantity>_high are bootstrap intervals
    over sequences (lib.measure.bootstrap).

    Raises ValueError naming layer and head if z or a pattern is not finite, and if the
    model's attention cannot be watched.
    """
    return screen(model, batch)[0]


def screen(model: CausalLM, batch: InductionBatch) -> tuple[pd.DataFrame, Summary]:
    """measure_heads with its replicates: (DataFrame, {quantity: [replicates, heads]}).

    The replicates, one column a row of the table, are of attention_<class>,
    baseline_<baseline>, sink_mass, pr and pr_centred; those of a selectivity are a
    quotient of two of them.
    """
    per_sequence, z = collect(model, batch)
    seq_len, n_heads = batch.tokens.shape[1], model.config.num_attention_heads
    estimates, replicates = summarise(per_sequence, z)
    constants = {
        "pr_ceiling": metrics.gaussian_ceiling(len(z), z.shape[-1]),
        "induction_ceiling": metrics.paper_baseline_ceiling(seq_len, batch.first_a.numpy()),
        "n_sequences": len(z),
    }
    return _table(estimates, replicates, n_heads, constants), replicates


def collect(model: CausalLM, batch: InductionBatch) -> tuple[Summary, np.ndarray]:
    """The forward passes: of each sequence and head only what the statistics need.

    Returns ({attention_<class>, baseline_<baseline>, sink_mass: [n, layer * head]}, z at the last position
    [n, layer * head, d_head] in fp32).
    """
    n, seq_len = batch.tokens.shape
    n_heads = model.config.num_attention_heads
    first_a = batch.first_a.numpy()
    positions = metrics.class_positions(seq_len, first_a)
    paper_positions = metrics.paper_baseline_positions(seq_len)
    clean = metrics.clean_baseline_mask(seq_len, first_a)
    names = [*(f"attention_{c}" for c in positions), *(f"baseline_{b}" for b in metrics.BASELINES), "sink_mass"]
    per_sequence = {name: np.empty((n, model.config.num_hidden_layers * n_heads)) for name in names}
    z = None

    for part, (last, sink, written) in watch(model, batch.tokens, _last_query):
        _require_finite({"attention": last, "z": written}, n_heads)
        for name, where in positions.items():
            taken = np.take_along_axis(last, where[part][:, None, :], axis=-1)
            per_sequence[f"attention_{name}"][part] = taken.mean(axis=-1)
        weights = clean[part] / clean[part].sum(axis=1, keepdims=True)
        per_sequence["baseline_paper"][part] = last[..., paper_positions].mean(axis=-1)
        per_sequence["baseline_clean"][part] = (last @ weights[:, :, None])[..., 0]
        per_sequence["sink_mass"][part] = sink
        if z is None:
            z = np.empty((n, *written.shape[1:]), np.float32)
        z[part] = written
    return per_sequence, z  # type: ignore[return-value]  # no batch is empty, so z is an array by now


def summarise(per_sequence: Summary, z: np.ndarray) -> tuple[Summary, Summary]:
    """What collect returns -> ({quantity: [heads]}, {quantity: [replicates, heads]})."""
    estimates = {name: values.mean(axis=0) for name, values in per_sequence.items()}
    replicates = {name: bootstrap.means(values) for name, values in per_sequence.items()}
    for name, centred in (("pr", False), ("pr_centred", True)):
        of_heads = [bootstrap.participation_ratio(z[:, i], centred) for i in range(z.shape[1])]
        estimates[name] = np.array([estimate for estimate, _ in of_heads])
        replicates[name] = np.stack([drawn for _, drawn in of_heads], axis=1)
    return estimates, replicates


def prefix_matching(model: CausalLM, tokens: Tensor) -> tuple[pd.DataFrame, Summary]:
    """How strongly each head attends to what followed the current token last time, on repeated sequences.

    model: as for measure_heads.  tokens: [n, T] from lib.measure.batch.repeated_sequences.

    The score (Olsson et al., In-context Learning and Induction Heads) is the mean
    attention, 0..1, from each token of the second half to the token after its first
    occurrence.

    Returns (DataFrame with layer, head, prefix_matching and its interval,
    {"prefix_matching": [replicates, heads]}).
    """
    n, seq_len = tokens.shape
    n_heads = model.config.num_attention_heads
    queries = np.arange(seq_len // 2, seq_len)
    keys = queries - seq_len // 2 + 1  # no token comes twice in a half

    def score(attention: Attention) -> tuple[Tensor]:
        return (attention.between(queries, keys).mean(dim=-1),)

    scores = np.empty((n, model.config.num_hidden_layers * n_heads))
    for part, (of_heads,) in watch(model, tokens, score):
        scores[part] = of_heads
    _require_finite({"attention": scores[..., None]}, n_heads)
    replicates = {"prefix_matching": bootstrap.means(scores)}
    return _with_intervals(_numbered({"prefix_matching": scores.mean(axis=0)}, n_heads), replicates), replicates


def _last_query(attention: Attention) -> tuple[Tensor, Tensor, Tensor]:
    """What the screen needs of a layer: the last row, sink mass and z at the last position."""
    return attention.last_row(), attention.to_first().mean(dim=-1), attention.z[:, :, -1].float()


# The table --------------------------------------------------------------------------


def _table(estimates: Summary, replicates: Summary, n_heads: int, constants: dict[str, float]) -> pd.DataFrame:
    """The head table: estimates, what is the same for all heads, and the intervals."""
    estimates, replicates = dict(estimates), dict(replicates)
    for b in metrics.BASELINES:
        for c in metrics.CLASSES:
            of = f"attention_{c}", f"baseline_{b}"
            for values in (estimates, replicates):
                values[metrics.selectivity_column(c, b)] = metrics.selectivity(*(values[k] for k in of))
    attention = [f"attention_{c}" for c in metrics.CLASSES]
    baselines = [f"baseline_{b}" for b in metrics.BASELINES]
    ratios = [metrics.selectivity_column(c, b) for b in metrics.BASELINES for c in metrics.CLASSES]
    columns = {name: estimates[name] for name in (*attention, *baselines, *ratios, "sink_mass", "pr", "pr_centred")}
    return _with_intervals(_numbered(columns | constants, n_heads), replicates)


def _numbered(columns: dict[str, np.ndarray | float], n_heads: int) -> pd.DataFrame:
    """A table of columns [layer * head], or of one value, with layer and head in front."""
    number = np.arange(max(np.size(values) for values in columns.values()))
    return pd.DataFrame({"layer": number // n_heads, "head": number % n_heads} | columns)


def _with_intervals(table: pd.DataFrame, replicates: Summary) -> pd.DataFrame:
    """The table with columns <quantity>_low and <quantity>_high where there are replicates."""
    for name in [c for c in table if c in replicates]:
        table[f"{name}_low"], table[f"{name}_high"] = bootstrap.interval(replicates[name])
    return table


def _require_finite(quantities: Summary, n_heads: int) -> None:
    """quantities: {name: [batch, layer * head, ...]}; raises ValueError naming the first head that is not finite.

    The first in the order of layers: what is wrong in one layer spoils all the later ones.
    """
    wrong = {what: ~np.isfinite(values).all(axis=(0, 2)) for what, values in quantities.items()}
    found = [(*divmod(int(heads.argmax()), n_heads), what) for what, heads in wrong.items() if heads.any()]
    if found:
        layer, head, what = min(found, key=lambda place: place[0])
        raise ValueError(
            f"{what} of layer {layer} head {head} holds NaN or infinity: the weights or the dtype are at fault"
        )
