"""Loading a checkpoint: the same call for a hub model with a revision and for a folder on disk."""

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from lib.panel import UserError

ARCHITECTURES = ("GPTNeoXForCausalLM", "OlmoForCausalLM", "OlmoeForCausalLM")


class CheckpointError(UserError, RuntimeError):
    """A checkpoint that is not there or cannot be measured; the message says what to do."""


def load(model, revision_name):
    """Load one checkpoint in fp32 for evaluation.

    model: lib.panel.Model.  Returns a transformers causal LM.  Never runs remote
    code.  Raises CheckpointError if the revision is not there or its architecture
    is none that the measurements were checked on.
    """
    folder = model.folder(revision_name)
    if folder is not None:
        if not (folder / "config.json").is_file():
            raise CheckpointError(
                f"no checkpoint in {model.path}/{revision_name}: train the mini models first (make models), "
                "or correct 'path' in the panel"
            )
        where = {"pretrained_model_name_or_path": folder}
    else:
        where = {"pretrained_model_name_or_path": model.hub, "revision": revision_name}
    logging.disable_progress_bar()
    try:
        loaded = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32, attn_implementation="eager")
    except OSError as error:
        raise CheckpointError(f"{model.label} at {revision_name} could not be loaded: {error}") from error
    architecture = type(loaded).__name__
    if architecture not in ARCHITECTURES:
        raise CheckpointError(
            f"{model.label} is a {architecture}; the measurements are checked for {', '.join(ARCHITECTURES)} only"
        )
    return loaded.eval()
