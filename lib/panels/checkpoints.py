"""Loading a checkpoint: the same call for a hub model with a revision and for a folder on disk."""

import json
import os
import warnings

import torch
from huggingface_hub import constants
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from lib import provenance
from lib.files import UserError
from lib.panels import hub
from lib.panels.hub import CheckpointError

ARCHITECTURES = ("GPTNeoXForCausalLM", "OlmoForCausalLM", "OlmoeForCausalLM")

# What of a config decides the numbers; a model's revisions must agree in it.
TRAITS = (
    "model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "hidden_act", "rope_parameters", "layer_norm_eps", "rms_norm_eps", "clip_qkv",
    "use_parallel_residual", "attention_bias", "tie_word_embeddings", "num_experts", "num_experts_per_tok",
    "norm_topk_prob",
)  # fmt: skip


class DeviceError(UserError, RuntimeError):
    """A device that this machine does not have; the message says what to do."""


def device(wanted="auto"):
    """The torch device to measure on: "cuda", "mps" or "cpu".

    wanted: the panel's device, over which CIRCUITS_DEVICE wins; "auto" takes the first
    that there is.  Raises DeviceError for one that there is not.
    """
    wanted = os.environ.get("CIRCUITS_DEVICE", wanted)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, is_there in there.items() if is_there)
    if not there.get(wanted):
        raise DeviceError(
            f"device {wanted!r} is not on this machine; there is {', '.join(name for name in there if there[name])} "
            "(--device, CIRCUITS_DEVICE or 'device' in the panel)"
        )
    return wanted


def half_precision_doubts(model_type, dtype, on):
    """What may be wrong with measuring in half precision, as sentences; none for float32.

    model_type: transformers' name of the architecture.  dtype: "float32", "bfloat16" or "float16".
    on: a device's name.
    """
    if dtype == "float32":
        return []
    doubts = []
    if model_type == "olmo":
        doubts.append(
            f"OLMo in {dtype}: queries and keys are clipped at 8 and rotated in few digits; its figures may differ from the "
            "paper's, which are of float32"
        )
    if on == "mps":
        doubts.append(f"{dtype} on MPS: sums are less exact there than on CUDA; check some revision against float32")
    return doubts


def traits(config):
    """What of a transformers config decides the numbers: {name: value}, as JSON has it."""
    found = {name: getattr(config, name) for name in TRAITS if hasattr(config, name)}
    return json.loads(json.dumps(found, default=str))


def refuse_other_traits(what, found, expected, of):
    """Raise CheckpointError if the traits of a revision are not those of its neighbours.

    what: "model at revision"; found, expected: traits(); of: whose the expected ones are.
    """
    differing = [name for name in sorted({*found, *expected}) if found.get(name) != expected.get(name)]
    if differing:
        raise CheckpointError(
            f"{what} has another config than {of}: "
            + "; ".join(f"{name} is {found.get(name)!r}, not {expected.get(name)!r}" for name in differing)
            + ". Its heads cannot be followed from there: correct the panel"
        )


def load(model, revision_name, on="cpu"):
    """Load one checkpoint for evaluation, in the panel's dtype and straight to the device.

    model: lib.panels.panel.Model.  on: a device's name, see device().  Returns a transformers
    causal LM whose attribute `checkpoint` says what was loaded: hub_commit (None for a
    folder), weights_sha256 and traits.  A revision of a hub is downloaded first if it is not in the
    cache.  Never runs code of a checkpoint's own, neither Python files nor pickles.  Raises
    CheckpointError if the revision is not there, is damaged, holds numbers that are not
    finite or is of an architecture that the measurements were not checked on.
    """
    what = f"{model.label} at {revision_name}"
    folder = model.folder(revision_name)
    if folder is not None:
        if not (folder / "config.json").is_file():
            raise CheckpointError(
                f"no checkpoint in {model.path}/{revision_name}: train the mini models first (make models), "
                "or correct 'path' in the panel"
            )
        commit, where = None, {"pretrained_model_name_or_path": folder}
        digests = [provenance.file_digest(f) for f in weight_files(folder)]
    else:
        snapshot, by_file = hub.verified(model.hub, revision_name)
        commit, digests = snapshot.commit, list(by_file.values())
        where = {
            "pretrained_model_name_or_path": model.hub,
            "revision": commit,
            "use_safetensors": snapshot.safetensors,
            "cache_dir": constants.HF_HUB_CACHE,
            "local_files_only": True,  # fetched above, checked, and not again
        }
    logging.disable_progress_bar()
    # Or transformers would ask the hub for safetensors that somebody else made of a pickle.
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
    try:
        config = AutoConfig.from_pretrained(
            **{k: v for k, v in where.items() if k != "use_safetensors"}, trust_remote_code=False
        )
        architecture = (config.architectures or ["model of unknown kind"])[0]
        if architecture not in ARCHITECTURES:
            raise CheckpointError(
                f"{what} is a {architecture}; the measurements are checked for {', '.join(ARCHITECTURES)} only"
            )
        for doubt in half_precision_doubts(config.model_type, model.dtype, on):
            warnings.warn(doubt, stacklevel=2)
        loaded = AutoModelForCausalLM.from_pretrained(
            **where,
            config=config,
            dtype=getattr(torch, model.dtype),
            attn_implementation="eager",
            trust_remote_code=False,
            weights_only=True,
            device_map=None if on == "cpu" else {"": on},
        )
    except CheckpointError:
        raise
    except torch.OutOfMemoryError as error:
        raise CheckpointError(
            f"{what} does not fit into the memory of {on} in {model.dtype}; choose bfloat16 as the model's dtype in the panel, "
            "or another device"
        ) from error
    except Exception as error:  # noqa: BLE001 - many kinds, all of them the checkpoint's
        raise CheckpointError(f"{what} could not be loaded: {type(error).__name__}: {error}") from error
    for name, tensor in loaded.named_parameters():
        if not tensor.isfinite().all():
            raise CheckpointError(
                f"{what}: the weights {name} hold NaN or infinity in {model.dtype}; the checkpoint is damaged"
                + ("" if model.dtype == "float32" else ", or too large for this dtype: try float32")
            )
    loaded.checkpoint = {"hub_commit": commit, "weights_sha256": provenance.digest(digests), "traits": traits(config)}
    return loaded.eval()


def weight_files(folder):
    """The files of a local checkpoint that hold its weights, sorted: safetensors, pickles if there are none."""
    return sorted(folder.glob("*.safetensors")) or sorted(folder.glob("pytorch_model*.bin"))
