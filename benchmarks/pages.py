"""The saved tables as Markdown, which the page "What it costs" includes: book/data/benchmarks/<name>.md."""

from dataclasses import dataclass

import pandas as pd
import yaml

from lib.files import ROOT
from lib.formatting import bytes_text, duration_text, percent
from lib.report.markdown import scrolling, table

FOLDER = ROOT / "book" / "data" / "benchmarks"
NOT_MEASURED = "Not measured yet: `python -m benchmarks {} --save` measures it."


def read(name):
    """A saved table and the machine it was measured on: (DataFrame, dict), None if it was never saved."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        return None
    return pd.read_csv(path), yaml.safe_load(path.with_suffix(".yml").read_text(encoding="utf-8"))


def machine_text(machine):
    """Where a table was measured, in a sentence."""
    packages = ", ".join(
        f"{k} {v}" for k, v in machine.items() if k not in ("processor", "threads", "python", "commit")
    )
    commit = f", commit `{machine['commit'][:12]}`" if machine.get("commit") else ""
    return f"Measured on {machine['processor'] or 'an unnamed processor'}, {machine['threads']} threads, Python {machine['python']}, {packages}{commit}."


def page(name, header, row):
    """A saved table as Markdown, with the machine; a sentence if there is none.

    header: names of columns.  row: a function of a row (a namedtuple) that gives the cells.
    """
    found = read(name)
    if found is None:
        return NOT_MEASURED.format(name)
    frame, machine = found
    rows = [row(r) for r in frame.itertuples()]
    return scrolling(table(rows, header), f"Benchmark: {name}") + f"\n\n{machine_text(machine)}"


def _mib(value, whole=None):
    """MiB, and in brackets its ratio to the whole if there is one."""
    if pd.isna(value):
        return "–"
    return f"{value:,.0f}" + (f" ({value / whole:.2f})" if whole else "")


def capture():
    """One checkpoint by contestant: a table of seconds, with their ratio to (d), and one of memory, with its ratio to (b)."""
    found = read("capture")
    if found is None:
        return NOT_MEASURED.format("capture")
    frame, machine = found
    known = frame.set_index(["model", "contestant"])
    models, contestants = (list(frame[column].unique()) for column in ("model", "contestant"))
    letters = [f"({c[1:].partition(')')[0]})" for c in contestants]
    seconds, memory = [], []
    for model in models:
        of = known.loc[model]
        n = of["sequences"].iloc[0]
        seconds.append(
            [model, f"{n:,}", *(f"{r.seconds:.3g} ({r.times_d:.2f})" for r in of.loc[contestants].itertuples())]
        )
        plainly = of["peak_mib"].iloc[letters.index("(b)")]
        memory.append([model, f"{n:,}", *(_mib(v, plainly) for v in of.loc[contestants, "peak_mib"])])
    return "\n\n".join(
        [
            "Seconds, and in brackets times those of (d):",
            scrolling(table(seconds, ["model", "sequences", *letters]), "Benchmark: capture, time"),
            "Peak memory over the weights in MiB, and in brackets times that of (b):",
            scrolling(table(memory, ["model", "sequences", *letters]), "Benchmark: capture, memory"),
            machine_text(machine),
        ]
    )


# Scaling up -------------------------------------------------------------------------

SEQUENCES, REPEATED, TOKENS = 2_000, 200, 256  # the paper's batch, and that of the prefix-matching score
GPU = 100e12  # operations a second: a tenth of what an H100 promises in bf16


@dataclass(frozen=True)
class Shape:
    """A dense transformer; mlp: matrices of its MLP and their width; keys: width of all keys of a layer together."""

    layers: int
    width: int
    keys: int
    mlp: tuple

    @property
    def parameters(self):
        """Without embeddings, norms and biases."""
        matrices, inner = self.mlp
        return self.layers * self.width * (2 * self.width + 2 * self.keys + matrices * inner)

    @property
    def operations_a_sequence(self):
        """Two a parameter and token, and four a pair of positions and dimension of attention, half of which causality saves."""
        return TOKENS * (2 * self.parameters + 2 * self.layers * TOKENS * self.width)


SHAPES = {  # as in their configs on the Hugging Face Hub
    "Pythia 1B": Shape(16, 2048, 2048, (2, 8192)),
    "OLMo 7B": Shape(32, 4096, 4096, (3, 11008)),
    "Llama 2 70B": Shape(80, 8192, 1024, (3, 28672)),
}


def scaling():
    """What a head table costs in larger models, from what Pythia 1B's shape was measured to cost."""
    found = read("capture")
    if found is None:
        return "Not measured yet: `python -m benchmarks capture --save` measures what this is worked out from."
    known = found[0].set_index(["model", "contestant"]).loc["Pythia 1B", "(a) ours"]
    one = SHAPES["Pythia 1B"]
    speed = known["sequences"] * one.operations_a_sequence / known["seconds"]
    rows = []
    for name, shape in SHAPES.items():
        operations = (SEQUENCES + REPEATED) * shape.operations_a_sequence
        micro_batch = known["peak_mib"] * 2**20 * shape.width / one.width
        z = 4 * SEQUENCES * shape.layers * shape.width
        rows.append(
            [
                name, f"{operations:.1e}", duration_text(operations / speed), duration_text(operations / GPU),
                bytes_text(2 * shape.parameters), "–" if pd.isna(micro_batch) else bytes_text(micro_batch + z),
            ]
        )  # fmt: skip
    header = ["model", "operations", "on this machine", "on a GPU", "weights in bf16", "working memory"]
    return scrolling(table(rows, header), "A head table in larger models") + (
        f"\n\nThis machine does {speed / 1e9:.0f} billion operations a second in the capture of Pythia's shape, in fp32; a GPU "
        f"is taken to do {GPU / 1e12:.0f} trillion."
    )


PAGES = {
    "scaling": scaling,
    "capture": capture,
    "statistics": lambda: page(
        "statistics",
        ["model", "forward passes of 2,000 sequences (s)", "statistics (s)", "share"],
        lambda r: [r.model, f"{r.passes_s:,.0f}", f"{r.statistics_s:.3g}", percent(r.share)],
    ),
    "ablation": lambda: page(
        "ablation",
        ["model", "conditions", "distinct", "one forward pass (s)", "the whole table (s)", "in forward passes", "by counting"],
        lambda r: [
            r.model, r.conditions, r.distinct, f"{r.forward_s:.3g}", f"{r.table_s:.3g}", f"{r.passes:.1f}",
            f"{r.counted:.1f}",
        ],
    ),
    "growth": lambda: page(
        "growth",
        ["what grows", "to", "seconds", "peak memory (MiB)", "exponent of the time", "exponent of the memory"],
        lambda r: [
            r.grows, f"{r.value:,}", f"{r.seconds:.3g}", _mib(r.peak_mib), f"{r.exponent_seconds:.2f}",
            f"{r.exponent_memory:.2f}",
        ],
    ),
    "report": lambda: page(
        "report",
        ["what", "seconds", "peak memory (MiB)"],
        lambda r: [r.what, f"{r.seconds:.3g}", _mib(r.peak_mib)],
    ),
    "training": lambda: page(
        "training",
        ["model", "tokens a second, one core", "drawing text", "matrix products", "attention", "optimiser"],
        lambda r: [
            r.model, f"{r.tokens_a_second_a_core:,.0f}", percent(r.share_drawing_text), percent(r.share_matrix_products),
            percent(r.share_attention), percent(r.share_optimiser),
        ],
    ),
    "fullsize": lambda: page(
        "fullsize",
        ["model", "sequences", "seconds a checkpoint", "peak memory over the weights (MiB)", "F1 at initialisation"],
        lambda r: [r.model, r.sequences, f"{r.seconds:.0f}", _mib(r.peak_mib), r.f1],
    ),
}  # fmt: skip


def write():
    """Write every table as Markdown beside the data it is made from."""
    for name, text in PAGES.items():
        (FOLDER / f"{name}.md").write_text(f"{text()}\n", encoding="utf-8")
