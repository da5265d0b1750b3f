"""The benchmarks: each takes a number of repeats and returns a table (pandas.DataFrame)."""

import os
import platform
import statistics as statistics_
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import yaml
from tqdm import tqdm

from benchmarks import contestants, shapes, timing
from benchmarks.pages import FOLDER
from lib import provenance
from lib.files import ROOT, atomic
from lib.measure import ablation as lib_ablation
from lib.measure import capture as lib_capture
from lib.measure.batch import InductionBatch, induction_batch
from lib.panels import recipes as mini
from lib.panels.panel import Revision, load_panel
from lib.report.jobs import status_of
from lib.tables import causal

PACKAGES = ("torch", "transformers", "transformer-lens", "numpy", "papermill", "jupyter-book")


def machine():
    """Where the figures were measured: processor, cores, versions, commit."""
    [model] = {line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")} or {""}
    return {
        "processor": model or platform.processor(),
        "threads": timing.THREADS,
        "python": platform.python_version(),
        **provenance.versions(*PACKAGES),
        "commit": provenance.commit(),
    }


def _lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.readlines()
    except OSError:
        return []


def save(name, table):
    """Keep a table and where it was measured: <name>.csv and <name>.yml.

    Rows of models that were not measured now stay.
    """
    path = FOLDER / f"{name}.csv"
    if "model" in table and path.is_file():
        before = pd.read_csv(path)
        table = pd.concat([before[~before["model"].isin(table["model"])], table])
    with atomic(FOLDER / f"{name}.csv") as path:
        table.to_csv(path, index=False, float_format="%.4g")
    with atomic(FOLDER / f"{name}.yml") as path:
        path.write_text(yaml.safe_dump(machine(), sort_keys=False), encoding="utf-8")


def first(batch, n):
    """The first n sequences of a batch."""
    return InductionBatch(batch.tokens[:n], batch.targets[:n], batch.first_a[:n])


# Capture ----------------------------------------------------------------------------


def capture(repeats, models=None):
    """One checkpoint's measurements, by contestant: seconds, times the bare forward pass (d), peak memory over the weights.

    models: names, of shapes.SHAPES and the mini panel; all of them if None.
    """
    torch.set_num_threads(timing.THREADS)
    rows = []
    for name in tqdm(models or [*shapes.SHAPES, *load_panel("mini").models], desc="capture", unit="model"):
        prepare = partial(shapes.subject, name)
        plain, batch = prepare()
        wrapped, _ = prepare()  # TransformerLens changes a model in place: its contestants have one of their own
        of = {c: wrapped if c.startswith("(c") else plain for c in contestants.CONTESTANTS}
        for c, call in contestants.CONTESTANTS.items():
            call(of[c], first(batch, 2))  # what is done once, such as building a bridge
        seconds = timing.interleaved(
            {c: partial(call, of[c], batch) for c, call in contestants.CONTESTANTS.items()},
            repeats,
        )
        del plain, wrapped, of
        memory = {c: timing.peak_memory(prepare, call) for c, call in contestants.CONTESTANTS.items()}
        rows += [
            {
                "model": name,
                "contestant": c,
                "sequences": len(batch.tokens),
                "seconds": seconds[c],
                "times_d": seconds[c] / seconds["(d) forward only"],
                "peak_mib": memory[c],
            }
            for c in contestants.CONTESTANTS
        ]
    return pd.DataFrame(rows)


def statistics(repeats, models=None):
    """Means, participation ratios and 200 replicates of everything, against the forward passes they belong to.

    models: names, of shapes.SHAPES and the mini panel; the 1B shapes and the mini panel if None.
    """
    torch.set_num_threads(timing.THREADS)
    rows = []
    for name in models or ["Pythia 1B", "OLMo 1B", *load_panel("mini").models]:
        model, batch = shapes.subject(name)
        config = model.config
        heads = config.num_hidden_layers * config.num_attention_heads
        d_head = config.hidden_size // config.num_attention_heads
        rng = np.random.default_rng(0)
        per_sequence = {str(i): rng.random((2000, heads)) for i in range(9)}  # as many quantities as collect returns
        z = rng.standard_normal((2000, heads, d_head)).astype(np.float32)
        seconds = timing.interleaved(
            {
                "passes": partial(lib_capture.collect, model, batch),
                "statistics": partial(lib_capture.summarise, per_sequence, z),
            },
            repeats,
        )
        passes = seconds["passes"] * 2000 / len(batch.tokens)
        rows.append(
            {
                "model": name,
                "passes_s": passes,
                "statistics_s": seconds["statistics"],
                "share": seconds["statistics"] / passes,
            }
        )
    return pd.DataFrame(rows)


# Ablation ---------------------------------------------------------------------------

# The shape of Pythia 1B's published circuit (L4H4, L7H0, L7H1), four layers later, so that it starts in the middle; at this
# revision two of its three heads are there.
FINAL_CIRCUIT = [(8, 4), (11, 0), (11, 1)]
OWN_CIRCUIT = FINAL_CIRCUIT[:2]
ABLATION_SEQUENCES = 4


def ablation(repeats):
    """A causal table of 45 conditions, circuits from the middle of 16 layers on, in forward passes of the same sequences."""
    torch.set_num_threads(timing.THREADS)
    rows = []
    for name in ("Pythia 1B", "OLMo 1B"):
        model, batch = shapes.subject(name)
        batch = first(batch, ABLATION_SEQUENCES)
        config = model.config
        sets = causal.conditions(OWN_CIRCUIT, [], FINAL_CIRCUIT, config.num_hidden_layers, config.num_attention_heads)
        sets = [heads for _, _, heads in sets]
        seconds = timing.interleaved(
            {
                "forward": partial(contestants.forward_only, model, batch),
                "table": partial(lib_ablation.capabilities, model, batch, sets),
            },
            repeats,
        )
        rows.append(
            {
                "model": name,
                "conditions": len(sets),
                "distinct": len({frozenset(s) for s in sets}),
                "forward_s": seconds["forward"],
                "table_s": seconds["table"],
                "passes": seconds["table"] / seconds["forward"],
                "counted": counted(config, sets),
            }
        )
    return pd.DataFrame(rows)


def counted(config, sets):
    """How many forward passes a causal table is by its matrix products, counted in d_model^2 a token; attention itself left out."""
    splits, _ = lib_ablation.split_by_layer([frozenset(heads) for heads in sets], config.num_hidden_layers)
    neox = config.model_type == "gpt_neox"
    mlp = (2 if neox else 3) * config.intermediate_size / config.hidden_size
    table, entering = 0.0, 1
    for parents, _ in splits[:-1]:
        # query, key and value are computed before streams split, the output after, the MLP before where it is parallel
        table += 3 * entering + len(parents) + mlp * (entering if neox else len(parents))
        entering = len(parents)
    table += 3 * entering  # of the last layer, what all positions take part in
    return table / (config.num_hidden_layers * (4 + mlp) + config.vocab_size / config.hidden_size)


# Growth -----------------------------------------------------------------------------

GROWTH = {
    "sequences": [8, 16, 32, 64],
    "positions": [128, 256, 512, 1024],
    "layers": [2, 4, 8, 16],
    "width": [256, 512, 1024, 2048],
}
USUAL = {"sequences": 16, "positions": 256, "layers": 4, "width": 1024}


def exponent(cost):
    """Least-squares slope of {size: cost} on logarithms; NaN if a cost is."""
    costs = np.log(list(cost.values()))
    return float(np.polyfit(np.log(list(cost)), costs, 1)[0]) if np.isfinite(costs).all() else np.nan


def growing(sequences, positions, layers, width):
    """A model of Pythia's kind (heads of 128 dimensions) and a batch, of the sizes given."""
    settings = {
        "vocab_size": 50304, "hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
        "num_attention_heads": width // 128, "rotary_pct": 0.25, "max_position_embeddings": 2048,
        "tie_word_embeddings": False, "use_cache": False,
    }  # fmt: skip
    return shapes.random_model("gpt_neox", settings), induction_batch(sequences, positions)


def growth(repeats):
    """Seconds and peak memory of the capture as one size grows and the others stay; exponents by least squares on logarithms."""
    torch.set_num_threads(timing.THREADS)
    rows = []
    for size, values in GROWTH.items():
        cases = {value: growing(**USUAL | {size: value}) for value in values}
        for case in cases.values():
            lib_capture.collect(case[0], first(case[1], 2))
        seconds = timing.interleaved(
            {value: partial(lib_capture.collect, *case) for value, case in cases.items()}, repeats
        )
        del cases
        memory = {
            value: timing.peak_memory(partial(growing, **USUAL | {size: value}), lib_capture.collect)
            for value in values
        }
        rows += [
            {
                "grows": size,
                "value": value,
                "seconds": seconds[value],
                "peak_mib": memory[value],
                "exponent_seconds": exponent(seconds),
                "exponent_memory": exponent(memory),
            }
            for value in values
        ]
    return pd.DataFrame(rows)


# Training ---------------------------------------------------------------------------

TRAINED_TOKENS = 400_000  # of each model, from its beginning


def training(repeats):
    """Training the mini models: tokens a second on one core, and where the time goes (a clock, and PyTorch's profiler)."""
    torch.set_num_threads(1)
    rows = []
    for name, recipe in mini.RECIPES.items():
        tokens = TRAINED_TOKENS // recipe.batch_tokens * recipe.batch_tokens
        revisions = [Revision(name="start", tokens=0), Revision(name="end", tokens=tokens)]
        speeds, sampling = [], []
        for _ in range(repeats):
            corpus = Stopwatch(recipe.corpus)
            started = time.perf_counter()
            mini.train(replace(recipe, corpus=corpus), revisions, save=lambda model, revision: None)
            seconds = time.perf_counter() - started
            speeds.append(tokens / seconds)
            sampling.append(corpus.seconds / seconds)
        rows.append(
            {
                "model": name,
                "tokens_a_second_a_core": statistics_.median(speeds),
                "share_drawing_text": statistics_.median(sampling),
                **operators(recipe),
            }
        )
    return pd.DataFrame(rows)


OPERATORS = {  # a share of the training table: beginnings of PyTorch's names of operators
    "share_matrix_products": ("aten::mm", "aten::addmm"),
    # Without dropout it is fused; with dropout, products in batches, softmax and random numbers.
    "share_attention": ("aten::_scaled_dot_product", "aten::bmm", "aten::_softmax", "aten::bernoulli"),
    "share_optimiser": ("aten::_fused_adam", "aten::_foreach", "aten::linalg_vector_norm"),
}
PROFILED_STEPS = 20


def operators(recipe):
    """Shares of OPERATORS in the time of all, without what they call, in some steps at the longest context."""
    recipe = replace(recipe, contexts={0: max(recipe.contexts.values())})
    revisions = [Revision(name=str(steps), tokens=steps * recipe.batch_tokens) for steps in (0, PROFILED_STEPS)]
    with torch.profiler.profile() as profile:
        mini.train(recipe, revisions, save=lambda model, revision: None)
    took = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return {
        share: sum(time for name, time in took.items() if name.startswith(names)) / sum(took.values())
        for share, names in OPERATORS.items()
    }


class Stopwatch:
    """A corpus that notes how long its samples take to draw."""

    def __init__(self, corpus):
        self.corpus, self.seconds = corpus, 0.0

    def sample(self, *arguments):
        started = time.perf_counter()
        drawn = self.corpus.sample(*arguments)
        self.seconds += time.perf_counter() - started
        return drawn


# Full size --------------------------------------------------------------------------

FULL_SIZE = {"Pythia 1B": "pythia-1b", "OLMo 1B": "olmo-1b-0724"}  # shape: its counterpart in the paper


def fullsize(repeats):
    """Two checkpoints with random weights of each 1B shape, on disk, through a panel of 16 sequences: time, memory, F1."""
    rows = []
    for name, counterpart in tqdm(FULL_SIZE.items(), desc="full size", unit="model"):
        with tempfile.TemporaryDirectory() as folder:
            for seed, revision in enumerate(("step0", "step1")):  # a panel needs two; the second has weights of its own
                shapes.random_model(*shapes.SHAPES[name], seed=seed).save_pretrained(Path(folder, "model", revision))
            path = Path(folder, "fullsize.yml")
            path.write_text(yaml.safe_dump(_full_size_panel(name, counterpart, str(Path(folder, "model")))))
            environment = os.environ | {"CIRCUITS_RESULTS": str(Path(folder, "results"))}
            command = [
                sys.executable,
                "-m",
                "lib.run",
                "--panel",
                str(path),
                "--findings",
                "F1",
                "--jobs",
                "1",
            ]
            subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
            of = Path(folder, "results", "fullsize")
            measured = [
                pd.read_parquet(of / kind / "model" / f"{revision}.parquet").attrs["provenance"]
                for kind in ("heads", "causal")
                for revision in ("step0", "step1")
            ]
            record = status_of(of / "runs" / "F1" / "model" / "step0.ipynb")["record"]
        memory = timing.peak_memory(partial(shapes.subject, name), contestants.ours)
        rows.append(
            {
                "model": name,
                "sequences": shapes.N_SEQUENCES,
                "seconds": sum(m["seconds"] for m in measured) / 2,
                "peak_mib": memory,
                "f1": f"{record['verdict']}: {record['gist']}",
            }
        )
    return pd.DataFrame(rows)


def _full_size_panel(label, counterpart, folder):
    batch = {"n_sequences": shapes.N_SEQUENCES, "seq_len": 256, "vocab_low": 100, "vocab_high": 10000, "seed": 42}
    revisions = [{"name": "step0", "tokens": 0}, {"name": "step1", "tokens": 2_097_152}]
    model = {"label": f"{label}, random", "path": folder, "counterpart": counterpart, "revisions": revisions}
    return {"name": "fullsize", "title": "Full size, random weights", "batch": batch, "models": {"model": model}}
