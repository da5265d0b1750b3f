"""Before anything is computed: is every checkpoint there, does it fit, and how long will it take?

    python -m lib.run --panel paper --check

Sizes and names come from the hub, memory from the architecture, room from this machine.
The times rest on the assumptions named below, and the table repeats them.
"""

import os
import time
from collections import Counter
from dataclasses import dataclass, field

import pandas as pd

from lib import panels
from lib.formatting import bytes_text, duration_text
from lib.tables import heads

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
    """What was found.  problems: what cannot work; warnings: what may surprise; snapshots: {(model, revision): Snapshot}."""

    rows: list = field(default_factory=list)
    totals: list = field(default_factory=list)
    machine: list = field(default_factory=list)
    problems: list = field(default_factory=list)
    warnings: list = field(default_factory=list)
    snapshots: dict = field(default_factory=dict)

    def text(self):
        """The table, what it takes against what there is, and what is in the way."""
        parts = [_table(self.rows), _table(self.totals), "\n".join(self.machine)]
        parts += [f"note: {warning}" for warning in self.warnings]
        parts += [f"REFUSED: {problem}" for problem in self.problems]
        return "\n\n".join(part for part in parts if part)


def _table(rows):
    return pd.DataFrame(rows).fillna("").to_string(index=False) if rows else ""


def check(panel, checkpoints, missing, evict=False, speed=None):
    """Look at checkpoints without measuring anything; returns a Report.

    panel: lib.panels.panel.Panel.  checkpoints: [(model, revision)] to look at; missing: those of them
    that are still to be measured, in the order of the sweep.  evict: whether each leaves the
    disk afterwards.  speed: what flops() says, for an estimate of the time.
    """
    from lib.panels import DeviceError, device

    report = Report()
    try:
        on = device(panel.device)
    except DeviceError as error:
        report.problems.append(str(error))
        on = "cpu"
    for model in dict.fromkeys(model for model, _ in checkpoints):
        spec, revisions = panel.model(model), [r for m, r in checkpoints if m == model]
        look = _look_on_hub if spec.hub else _look_on_disk
        configs = look(report, spec, model, revisions, missing)
        _check_configs(report, spec, configs)
        if configs:
            config = configs[_majority(configs)] if not all(configs.values()) else list(configs.values())[-1]
            to_measure = sum(m == model for m, _ in missing)
            _weigh(report, panel, model, config, on, to_measure, speed)
    _look_at_machine(report, on)
    _check_disk(report, missing, evict)
    return report


# Revisions -------------------------------------------------------------------------


def _row(report, model, revision, state, snapshot=None, size=None):
    report.rows.append(
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


def _look_on_disk(report, spec, model, revisions, missing):
    """Local checkpoints; returns {revision: config}."""
    from transformers import AutoConfig

    from lib.panels import weight_files

    configs = {}
    for revision in revisions:
        folder = spec.folder(revision)
        files = weight_files(folder) if (folder / "config.json").is_file() else []
        if files:
            configs[revision] = AutoConfig.from_pretrained(folder)
            state = "to measure" if (model, revision) in missing else "measured"
            _row(report, model, revision, state, size=sum(f.stat().st_size for f in files))
        else:
            _row(report, model, revision, "not there")
            report.problems.append(
                f"no checkpoint in {spec.path}/{revision}: train the mini models first (make models)"
            )
    return configs


def _look_on_hub(report, spec, model, revisions, missing):
    """Checkpoints of a hub; returns {revision: config} of those that are there."""
    from huggingface_hub import hf_hub_download
    from transformers import AutoConfig

    configs, same = {}, {}
    for revision in revisions:
        try:
            snapshot = panels.hub.resolve(spec.hub, revision)
            panels.hub.patiently(
                lambda s=snapshot: hf_hub_download(s.repo, panels.hub.CONFIG, revision=s.commit),
                f"asking for {spec.hub}",
            )
        except panels.hub.HubUnreachable as error:
            _row(report, model, revision, "unreachable")
            report.problems.append(str(error))
            break  # the others would only take their time to say the same
        except panels.hub.CheckpointError as error:
            _row(report, model, revision, "REFUSED")
            report.problems.append(str(error))
            continue
        try:
            configs[revision] = AutoConfig.from_pretrained(snapshot.folder, trust_remote_code=False)
        except Exception as error:  # noqa: BLE001 - whatever a config may hold
            _row(report, model, revision, "REFUSED", snapshot)
            report.problems.append(f"{spec.hub} at {revision}: its config cannot be read: {error}")
            continue
        report.snapshots[model, revision] = snapshot
        _row(report, model, revision, "to measure" if (model, revision) in missing else "measured", snapshot)
        if not snapshot.safetensors:
            report.warnings.append(f"{spec.hub} at {revision} has no safetensors: its pickles are read as tensors only")
        same.setdefault(tuple(f.sha256 for f in snapshot.weights), []).append(revision)
    for names in same.values():
        if len(names) > 1:
            report.warnings.append(heads.same_weights_text(spec.label, names))
    return configs


def _majority(configs):
    """The revision whose traits most others share, the last one of these."""
    from lib.panels import traits

    texts = {revision: repr(traits(config)) for revision, config in configs.items()}
    counts = Counter(texts.values())
    most = max(counts.values())
    return [revision for revision, text in texts.items() if counts[text] == most][-1]


def _check_configs(report, spec, configs):
    """Refuse architectures that are not measured, and revisions unlike their neighbours."""
    from lib.panels import ARCHITECTURES, refuse_other_traits, traits

    for revision, config in configs.items():
        architecture = (config.architectures or ["model of unknown kind"])[0]
        if architecture not in ARCHITECTURES:
            report.problems.append(
                f"{spec.label} at {revision} is a {architecture}; the measurements are checked for "
                f"{', '.join(ARCHITECTURES)} only"
            )
        elif len(configs) > 1:
            usual = _majority(configs)
            try:
                refuse_other_traits(f"{spec.label} at {revision}", traits(config), traits(configs[usual]), usual)
            except panels.hub.CheckpointError as error:
                report.problems.append(str(error))


# What it takes ---------------------------------------------------------------------


def parameters(config):
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


def work(panel, config):
    """(head table, causal table at most): floating-point operations for one checkpoint.

    A token costs two a parameter, and four times its context and width a layer for attention.
    The causal table has the heads of a circuit zeroed in up to 46 ways, which share
    what lies below the first zeroed head: all 46 forward passes are counted.
    """
    from lib.tables import causal

    seq_len, n = panel.batch.seq_len, panel.batch.n_sequences
    attention = 4 * config.num_hidden_layers * seq_len * config.hidden_size
    sequence = seq_len * (2 * parameters(config)[1] + attention)
    ways = 2 + 2 * (2 + causal.DRAWS)
    return (n + heads.n_repeated(panel)) * sequence, min(n, causal.N_SEQUENCES) * ways * sequence


def flops(on, dtype):
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
    import psutil
    import torch

    spec = panel.model(model)
    count, _ = parameters(config)
    weights = count * BYTES[spec.dtype]
    row = {
        "model": model,
        "parameters": f"{count / 1e9:.2f} billion",
        "dtype": spec.dtype,
        "weights": bytes_text(weights),
        "memory": bytes_text(weights + WORKING_MEMORY),
        "on": on,
        "to measure": to_measure,
    }
    of_model = [s for (m, r), s in report.snapshots.items() if m == model]
    row["to download"] = bytes_text(sum(s.size - s.bytes_present() for s in of_model)) if of_model else "–"
    if speed:
        head, ablated = work(panel, config)
        rate = EFFICIENCY * speed(on, spec.dtype)
        row["download time"] = duration_text(sum(s.size - s.bytes_present() for s in of_model) / DOWNLOAD_RATE)
        row["head tables"] = duration_text(to_measure * head / rate)
        row["causal tables"] = f"up to {duration_text(to_measure * ablated / rate)}"
    report.totals.append(row)
    main_memory = psutil.virtual_memory().total
    there = {"cpu": main_memory, "mps": main_memory}
    if on == "cuda":
        there["cuda"] = torch.cuda.get_device_properties(0).total_memory
    if weights + WORKING_MEMORY > there[on]:
        smaller = "" if spec.dtype != "float32" else "; 'dtype: bfloat16' in the panel halves the weights"
        report.problems.append(
            f"{spec.label} takes {bytes_text(weights + WORKING_MEMORY)} in {spec.dtype} and {on} has {bytes_text(there[on])}{smaller}"
        )
    elif on == "cpu" and weights + WORKING_MEMORY > psutil.virtual_memory().available:
        report.warnings.append(f"{spec.label} takes {bytes_text(weights + WORKING_MEMORY)}: close other programs first")
    from lib.panels import half_precision_doubts

    report.warnings += [f"{spec.label}: {doubt}" for doubt in half_precision_doubts(config.model_type, spec.dtype, on)]


def _look_at_machine(report, on):
    import psutil
    import torch

    memory = psutil.virtual_memory()
    report.machine.append(f"main memory: {bytes_text(memory.total)}, {bytes_text(memory.available)} of it available")
    if on == "cuda":
        total = torch.cuda.get_device_properties(0).total_memory
        report.machine.append(f"GPU: {torch.cuda.get_device_name(0)}, {bytes_text(total)}")


def _check_disk(report, missing, evict):
    """Whether what is still to be downloaded has room where the cache is."""
    coming = [report.snapshots[which] for which in missing if which in report.snapshots]
    if not coming:
        return
    left = [snapshot.size - snapshot.bytes_present() for snapshot in coming]
    together = sum(left)
    if evict:
        sizes = [snapshot.size for snapshot in coming]
        need = max(left)  # one at a time is enough, if need be
        comfortable = max(a + b for a, b in zip(sizes, [*sizes[1:], 0]))
    else:
        need = comfortable = together
    free = panels.hub.free_bytes(panels.hub.constants.HF_HUB_CACHE)
    where = panels.hub.constants.HF_HUB_CACHE.replace(os.path.expanduser("~"), "~", 1)
    report.machine.append(
        f"disk of the cache ({where}): {bytes_text(free)} free, {bytes_text(comfortable)} needed "
        + (
            "(two checkpoints at a time, --evict)"
            if evict
            else "(all that is to be downloaded; --evict keeps two at a time)"
        )
    )
    if need + panels.hub.SPARE > free:
        report.problems.append(
            f"the disk of the cache has {bytes_text(free)} free and {bytes_text(need)} are needed: "
            + ("" if evict else "use --evict, ")
            + "make room, or set HF_HOME to a folder on a larger disk"
        )
    elif evict and comfortable + panels.hub.SPARE > free:
        report.warnings.append("the disk holds one checkpoint but not two: downloads will wait for measurements")
