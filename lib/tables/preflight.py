"""Before anything is computed: is every checkpoint there, does it fit, and how long will it take?

    python -m lib.run --panel paper --check

Sizes and names come from the hub, memory from the architecture, room from this machine.
The times rest on the assumptions named below, and the table repeats them.
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import psutil

from lib import panels
from lib.formatting import bytes_text, duration_text
from lib.tables import causal, heads

DOWNLOAD_RATE = 25e6  # bytes a second: a line of 200 Mbit/s
EFFICIENCY = 0.4  # of the speed of a matrix product that this device shows, in a whole forward pass
WORKING_MEMORY = 1.5 * 2**30  # bytes beside the weights while measuring
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

ASSUMPTIONS = (
    f"Times assume {bytes_text(DOWNLOAD_RATE)} a second of download, and {EFFICIENCY:.0%} of the speed of a matrix product, "
    "tried on this device just now. Memory is the weights and 1.6 GB to work with."
)


@dataclass
class Report:
    """What was found.  problems: what cannot work; warnings: what may surprise; snapshots: {(model, revision): Snapshot}.

    rows, totals: the tables of revisions and of models.  machine: what this machine has, as lines.
    """

    rows: list[dict] = field(default_factory=list)
    totals: list[dict] = field(default_factory=list)
    machine: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    snapshots: dict[tuple[str, str], Any] = field(default_factory=dict)

    def text(self) -> str:
        """The table, what it takes against what there is, and what is in the way."""
        tables = [pd.DataFrame(rows).fillna("").to_string(index=False) for rows in (self.rows, self.totals) if rows]
        parts = [*tables, "\n".join(self.machine)]
        parts += [f"note: {warning}" for warning in self.warnings]
        parts += [f"REFUSED: {problem}" for problem in self.problems]
        return "\n\n".join(part for part in parts if part)

    def add(self, model: str, revision: str, state: str, snapshot: Any = None, size: int = 0) -> None:
        """A row of the table of revisions; size: bytes of a local checkpoint."""
        self.rows.append(
            {
                "model": model,
                "revision": revision,
                "commit": snapshot.commit[:10] if snapshot else "",
                "files": len(snapshot.files) if snapshot else "",
                "size": bytes_text(snapshot.size if snapshot else size) if snapshot or size else "",
                "in the cache": bytes_text(snapshot.bytes_present()) if snapshot else "",
                "state": state,
            }
        )

    def refuse(self, problem: Any, *row: Any) -> None:
        """Note what cannot work, and the row of the revision where it is one's."""
        self.problems.append(str(problem))
        if row:
            self.add(*row)


Checkpoints = list[tuple[str, str]]  # (model, revision)


def check(
    panel: panels.Panel, checkpoints: Checkpoints, missing: Checkpoints, evict: bool = False, speed=None
) -> Report:
    """Look at checkpoints without measuring anything.

    missing: those of the checkpoints that are still to be measured, in the order of the sweep.  evict: whether each
    leaves the disk afterwards.  speed: flops(), for an estimate of the time.
    """
    report = Report()
    try:
        on = panels.device(panel.device)
    except panels.DeviceError as error:
        report.refuse(error)
        on = "cpu"
    for model in dict.fromkeys(model for model, _ in checkpoints):
        spec, revisions = panel.model(model), [r for m, r in checkpoints if m == model]
        look = _look_on_hub if spec.hub else _look_on_disk
        configs = look(report, spec, model, revisions, missing)
        if configs:
            _check_configs(report, spec, configs)
            _weigh(report, panel, model, list(configs.values())[-1], on, sum(m == model for m, _ in missing), speed)
    _look_at_machine(report, on)
    _check_disk(report, missing, evict)
    return report


# Revisions -------------------------------------------------------------------------


def _state(model, revision, missing):
    return "to measure" if (model, revision) in missing else "measured"


def _look_on_disk(report, spec, model, revisions, missing):
    """Local checkpoints; returns {revision: config}."""
    from transformers import AutoConfig

    configs = {}
    for revision in revisions:
        folder = spec.folder(revision)
        files = panels.weight_files(folder) if (folder / "config.json").is_file() else []
        if files:
            configs[revision] = AutoConfig.from_pretrained(folder)
            size = sum(file.stat().st_size for file in files)
            report.add(model, revision, _state(model, revision, missing), size=size)
        else:
            where = f"{spec.path}/{revision}"
            report.refuse(
                f"no checkpoint in {where}: train the mini models first (make models)", model, revision, "not there"
            )
    return configs


def _look_on_hub(report, spec, model, revisions, missing):
    """Checkpoints of a hub; returns {revision: config} of those that are there."""
    from huggingface_hub import hf_hub_download
    from transformers import AutoConfig

    hub, configs, same = panels.hub, {}, {}
    for revision in revisions:
        try:
            snapshot = hub.resolve(spec.hub, revision)
            hub.patiently(
                lambda s=snapshot: hf_hub_download(s.repo, hub.CONFIG, revision=s.commit), f"asking for {spec.hub}"
            )
        except hub.HubUnreachable as error:
            report.refuse(error, model, revision, "unreachable")
            break  # the others would only take their time to say the same
        except hub.CheckpointError as error:
            report.refuse(error, model, revision, "REFUSED")
            continue
        try:
            configs[revision] = AutoConfig.from_pretrained(snapshot.folder, trust_remote_code=False)
        except Exception as error:  # noqa: BLE001 - whatever a config may hold
            problem = f"{spec.hub} at {revision}: its config cannot be read: {error}"
            report.refuse(problem, model, revision, "REFUSED", snapshot)
            continue
        report.snapshots[model, revision] = snapshot
        report.add(model, revision, _state(model, revision, missing), snapshot)
        if not snapshot.safetensors:
            report.warnings.append(f"{spec.hub} at {revision} has no safetensors: its pickles are read as tensors only")
        same.setdefault(tuple(f.sha256 for f in snapshot.weights), []).append(revision)
    report.warnings += [heads.same_weights_text(spec.label, names) for names in same.values() if len(names) > 1]
    return configs


def _check_configs(report, spec, configs):
    """Refuse architectures that are not measured, and revisions whose traits are not those that most others share."""
    traits = {revision: panels.traits(config) for revision, config in configs.items()}
    counts = Counter(map(repr, traits.values()))
    usual = [revision for revision in traits if counts[repr(traits[revision])] == max(counts.values())][-1]
    for revision, config in configs.items():
        architecture = (config.architectures or ["model of unknown kind"])[0]
        if architecture not in panels.ARCHITECTURES:
            report.refuse(
                f"{spec.label} at {revision} is a {architecture}; the measurements are checked for "
                f"{', '.join(panels.ARCHITECTURES)} only"
            )
            continue
        try:
            panels.refuse_other_traits(f"{spec.label} at {revision}", traits[revision], traits[usual], usual)
        except panels.CheckpointError as error:
            report.refuse(error)


# What it takes ---------------------------------------------------------------------


def parameters(config: Any) -> tuple[int, int]:
    """(all, per token): parameters of a model, and those that a token is multiplied with; nothing is allocated."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    embedding = model.get_input_embeddings().weight.numel()
    experts = sum(n for name, n in sizes.items() if ".experts." in name)
    used = getattr(config, "num_experts_per_tok", 0) / getattr(config, "num_experts", 1)
    return sum(sizes.values()), sum(sizes.values()) - embedding - round(experts * (1 - used))


def work(panel: panels.Panel, config: Any) -> tuple[int, int]:
    """(head table, causal table at most): floating-point operations for one checkpoint.

    A token costs two a parameter, and four times its context and width a layer for attention.
    The causal table has the heads of a circuit zeroed in up to 46 ways, which share
    what lies below the first zeroed head: all 46 forward passes are counted.
    """
    seq_len, n = panel.batch.seq_len, panel.batch.n_sequences
    attention = 4 * config.num_hidden_layers * seq_len * config.hidden_size
    sequence = seq_len * (2 * parameters(config)[1] + attention)
    ways = 2 + 2 * (2 + causal.DRAWS)
    return (n + heads.n_repeated(panel)) * sequence, min(n, causal.N_SEQUENCES) * ways * sequence


def flops(on: str, dtype: str) -> float:
    """Floating-point operations a second of a matrix product, tried out on this device for a moment."""
    import torch

    size = 2048 if on == "cpu" else 8192
    matrix = torch.randn(size, size, dtype=getattr(torch, dtype), device=on)
    sync = getattr(torch, on).synchronize
    best = 0.0
    for _ in range(3):
        sync()
        start = time.perf_counter()
        matrix @ matrix
        sync()
        best = max(best, 2 * size**3 / (time.perf_counter() - start))
    return best


def _weigh(report, panel, model, config, on, to_measure, speed):
    """Memory and time of a model's checkpoints, and whether the memory is there."""
    spec = panel.model(model)
    count, _ = parameters(config)
    weights = count * BYTES[spec.dtype]
    memory = weights + WORKING_MEMORY
    of_model = [snapshot for (m, _), snapshot in report.snapshots.items() if m == model]
    left = sum(snapshot.left for snapshot in of_model)
    row = {
        "model": model,
        "parameters": f"{count / 1e9:.2f} billion",
        "dtype": spec.dtype,
        "weights": bytes_text(weights),
        "memory": bytes_text(memory),
        "on": on,
        "to measure": to_measure,
        "to download": bytes_text(left) if of_model else "–",
    }
    if speed:
        head, ablated = work(panel, config)
        rate = EFFICIENCY * speed(on, spec.dtype)
        row["download time"] = duration_text(left / DOWNLOAD_RATE)
        row["head tables"] = duration_text(to_measure * head / rate)
        row["causal tables"] = f"up to {duration_text(to_measure * ablated / rate)}"
    report.totals.append(row)
    there = _gpu()[1] if on == "cuda" else psutil.virtual_memory().total
    if memory > there:
        smaller = "" if spec.dtype != "float32" else "; 'dtype: bfloat16' in the panel halves the weights"
        report.refuse(
            f"{spec.label} takes {bytes_text(memory)} in {spec.dtype} and {on} has {bytes_text(there)}{smaller}"
        )
    elif on == "cpu" and memory > psutil.virtual_memory().available:
        report.warnings.append(f"{spec.label} takes {bytes_text(memory)}: close other programs first")
    doubts = panels.half_precision_doubts(config.model_type, spec.dtype, on)
    report.warnings += [f"{spec.label}: {doubt}" for doubt in doubts]


def _gpu():
    """(name, bytes of memory) of the GPU."""
    import torch

    return torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory


def _look_at_machine(report, on):
    memory = psutil.virtual_memory()
    report.machine.append(f"main memory: {bytes_text(memory.total)}, {bytes_text(memory.available)} of it available")
    if on == "cuda":
        name, total = _gpu()
        report.machine.append(f"GPU: {name}, {bytes_text(total)}")


def _check_disk(report, missing, evict):
    """Whether what is still to be downloaded has room where the cache is."""
    coming = [report.snapshots[which] for which in missing if which in report.snapshots]
    if not coming:
        return
    need = comfortable = sum(snapshot.left for snapshot in coming)
    how = "all that is to be downloaded; --evict keeps two at a time"
    if evict:
        sizes = [snapshot.size for snapshot in coming]
        need = max(snapshot.left for snapshot in coming)  # one at a time is enough, if need be
        comfortable = max(a + b for a, b in zip(sizes, [*sizes[1:], 0]))
        how = "two checkpoints at a time, --evict"
    hub = panels.hub
    free = hub.free_bytes(hub.constants.HF_HUB_CACHE)
    report.machine.append(
        f"disk of the cache ({hub.cache_text()}): {bytes_text(free)} free, {bytes_text(comfortable)} needed ({how})"
    )
    if need + hub.SPARE > free:
        report.refuse(
            f"the disk of the cache has {bytes_text(free)} free and {bytes_text(need)} are needed: "
            f"{'' if evict else 'use --evict, '}make room, or set HF_HOME to a folder on a larger disk"
        )
    elif evict and comfortable + hub.SPARE > free:
        report.warnings.append("the disk holds one checkpoint but not two: downloads will wait for measurements")
