"""What the measurements cost: the tables that the benchmarks saved, for the book, and what larger models would take."""

from dataclasses import dataclass

import pandas as pd
import yaml

from lib.files import ROOT
from lib.report.markdown import render

FOLDER = ROOT / "book" / "data" / "benchmarks"
TABLES = ("capture", "statistics", "ablation", "growth", "report", "training", "fullsize")


def read(name):
    """A saved table and the machine it was measured on: (DataFrame, dict), None if it was never saved."""
    path = FOLDER / f"{name}.csv"
    if not path.is_file():
        return None
    return pd.read_csv(path), yaml.safe_load(path.with_suffix(".yml").read_text(encoding="utf-8"))


def parts():
    """{name: Markdown} of what book/costs.md includes; a sentence where nothing was measured yet."""
    found = {name: read(name) for name in TABLES}
    pages = {}
    for name in TABLES:
        if found[name] is None:
            pages[f"costs_{name}"] = f"Not measured yet: `python -m benchmarks {name} --save` measures it."
        else:
            frame, machine = found[name]
            values = _capture(frame) if name == "capture" else {"rows": list(frame.itertuples())}
            pages[f"costs_{name}"] = render(f"costs_{name}", **values) + f"\n\n{machine_text(machine)}"
    scaling = _scaling(found["capture"][0]) if found["capture"] else {"rows": []}
    return pages | {"costs_scaling": render("costs_scaling", **scaling)}


def machine_text(machine):
    """Where a table was measured, in a sentence."""
    packages = ", ".join(
        f"{name} {version}"
        for name, version in machine.items()
        if name not in ("processor", "threads", "python", "commit")
    )
    commit = f", commit `{machine['commit'][:12]}`" if machine.get("commit") else ""
    processor, threads = machine["processor"] or "an unnamed processor", machine["threads"]
    return f"Measured on {processor}, {threads} threads, Python {machine['python']}, {packages}{commit}."


def _capture(frame):
    """One checkpoint by contestant: tables of seconds, with their ratio to (d), and of memory, with its ratio to (b)."""
    contestants = list(frame["contestant"].unique())  # "(a) ours"
    letters = [name.partition(" ")[0] for name in contestants]
    models = {}
    for model, of in frame.groupby("model", sort=False):
        of = of.set_index("contestant").loc[contestants]
        models[model] = list(of.assign(ratio=of["peak_mib"] / of["peak_mib"].iloc[letters.index("(b)")]).itertuples())
    return {"letters": letters, "models": models}


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


def _scaling(capture):
    """What a head table costs in larger models, from what Pythia 1B's shape was measured to cost."""
    known = capture.set_index(["model", "contestant"]).loc["Pythia 1B", "(a) ours"]
    one = SHAPES["Pythia 1B"]
    speed = known["sequences"] * one.operations_a_sequence / known["seconds"]
    rows = []
    for name, shape in SHAPES.items():
        operations = (SEQUENCES + REPEATED) * shape.operations_a_sequence
        micro_batch = known["peak_mib"] * 2**20 * shape.width / one.width
        z = 4 * SEQUENCES * shape.layers * shape.width  # of all sequences
        rows.append((name, shape, operations, operations / speed, operations / GPU, micro_batch + z))
    return {"rows": rows, "speed": speed, "gpu": GPU}
