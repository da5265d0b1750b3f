"""The causal check: does a model's induction circuit carry the capability that it is named for?

At a model's last revision the circuit's heads are zeroed, then matched random heads
(same layers, same count a layer), then all heads of those layers.
"""

import json
import time

from lib import heads, provenance
from lib.findings import by_revision, head_set, in_circuit, is_bos
from lib.paths import atomic, results_dir
from lib.words import join, percent, plural

N_SEQUENCES = 500  # the first of the panel's batch; the screen uses them all
DRAWS = 10  # sets of matched random heads; the paper uses one
SEED = 123  # the paper's
CODE = ("ablation", "capture", "batch", "models", "causal")


def path_of(panel, model):
    """File of a model's causal check."""
    return results_dir(panel.name) / "causal" / f"{model}.json"


def circuit_of(panel, model):
    """The induction circuit (paper baseline) at the model's last revision: sorted [(layer, head)]."""
    table = heads.head_table(panel, model, panel.model(model).revisions[-1].name)
    return sorted(head_set(table[in_circuit(table, panel.thresholds.induction_circuit)]))


def sources(panel, model, circuit):
    """What a causal check depends on."""
    return {
        "heads": heads.sources(panel, model, panel.model(model).revisions[-1].name),
        "circuit": [list(h) for h in circuit],
        "code": provenance.code_digest(*CODE),
    }


def read(panel, model):
    """The check on disk, or None if there is none or it is stale."""
    try:
        result = json.loads(path_of(panel, model).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return result if result["sources"] == sources(panel, model, circuit_of(panel, model)) else None


def measure(panel, model):
    """Measure and save a model's causal check.

    Returns a dict: circuit, n_sequences, baseline, ablated, layers (all heads of the
    circuit's layers) and random (one entry a draw), each a dict as lib.ablation.capability
    gives it; ablated and layers are None and random is empty if there is no circuit.
    """
    from lib.ablation import capability, matched_random
    from lib.batch import induction_batch
    from lib.models import load

    spec = panel.model(model)
    started = time.perf_counter()
    circuit = circuit_of(panel, model)
    loaded = load(spec, spec.revisions[-1].name)
    parameters = panel.batch.model_dump()
    batch = induction_batch(**{**parameters, "n_sequences": min(N_SEQUENCES, parameters["n_sequences"])})
    n_heads = loaded.config.num_attention_heads
    whole_layers = [(layer, head) for layer in sorted({layer for layer, _ in circuit}) for head in range(n_heads)]
    draws = matched_random(circuit, loaded.config.num_hidden_layers, n_heads, DRAWS, SEED) if circuit else []
    result = {
        "circuit": [list(h) for h in circuit],
        "n_sequences": len(batch.targets),
        "baseline": capability(loaded, batch),
        "ablated": capability(loaded, batch, circuit) if circuit else None,
        "layers": capability(loaded, batch, whole_layers) if circuit else None,
        "random": [capability(loaded, batch, heads_) for heads_ in draws],
        "sources": sources(panel, model, circuit),
        "seconds": round(time.perf_counter() - started, 2),
    }
    with atomic(path_of(panel, model)) as path:
        path.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


CRITERIA = (
    "three or more heads past 50x (clean baseline)",
    "top-1 of 40 % or more",
    "the circuit carries four fifths of it",
    "random heads cost far less",
    "first-token attractors exist somewhere",
    "no trajectory is flat",
)


def formed(trajectory, check, thresholds):
    """Whether circuits have really formed: one (met, what was found) for each of CRITERIA.

    trajectory: lib.heads.trajectory.  check: what measure returns.  "Far less" means
    that the mean over the random draws costs at most half of what the circuit costs.
    """
    final = trajectory[trajectory["step"] == trajectory["step"].max()]
    n_clean = int(in_circuit(final, thresholds.induction_circuit, "clean").sum())
    top1 = check["baseline"]["top1"]
    lost = None if check["ablated"] is None or not top1 else 1 - check["ablated"]["top1"] / top1
    draws = [1 - r["top1"] / top1 for r in check["random"]] if top1 else []
    random = sum(draws) / len(draws) if draws else None
    bos = is_bos(trajectory, thresholds)
    curves = {
        "induction heads": by_revision(trajectory, in_circuit(trajectory, thresholds.induction_circuit)),
        "BOS heads": by_revision(trajectory, bos),
    }
    flat = [name for name, curve in curves.items() if curve.nunique() == 1]
    return [
        (n_clean >= 3, plural(n_clean, "head")),
        (top1 >= 0.4, percent(top1)),
        (lost is not None and lost >= 0.8, "no circuit" if lost is None else f"{percent(lost)} of top-1 is lost"),
        (
            random is not None and lost is not None and random <= lost / 2,
            "nothing to compare" if random is None else f"{percent(random)} is lost on average",
        ),
        (bool(bos.any()), f"at most {plural(int(by_revision(trajectory, bos).max()), 'head')} at one revision"),
        (not flat, "both counts change" if not flat else f"{join(flat)} never change"),
    ]
