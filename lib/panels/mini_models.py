"""Train the mini models: a real, small run for each, saved at the panel's revisions.

    python -m lib.train [--panel mini] [--jobs 2]

Every model is a process of its own.  A model's folder takes its name only when all of
its revisions are there; a finished model is not trained again unless its recipe, its
revisions or the code of its training change.
"""

import argparse
import json
import multiprocessing
import os
import queue
import shutil
import sys

from tqdm import tqdm

from lib import numerics, provenance
from lib.files import ROOT
from lib.panels.panel import PanelError, load_panel
from lib.panels.recipes import RECIPES
from lib.panels.training import train

TRAINING_CODE = (
    "panels.training",
    "panels.corpus",
    "numerics",
)  # what decides the weights; this file only decides where they go
TRAINING_PACKAGES = ("numpy", "torch", "transformers")


def recipe_digest(name, revisions):
    """Hash of all that decides the weights."""
    return provenance.digest(
        {
            "recipe": repr(RECIPES[name]),
            "revisions": [(r.name, r.tokens) for r in revisions],
            "code": provenance.code_digest(*TRAINING_CODE),
            "versions": provenance.versions(*TRAINING_PACKAGES),
        }
    )


def is_trained(name, spec):
    """Whether a model's folder holds this recipe's finished run."""
    try:
        log = json.loads((ROOT / spec.path / "training.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return log.get("recipe_sha256") == recipe_digest(name, spec.revisions)


def train_to_disk(name, spec, report):
    """Train one model of a panel into its folder, as transformers checkpoints, one a revision."""
    folder = ROOT / spec.path
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    losses = []

    def save(model, revision):
        model.save_pretrained(partial / revision.name)

    def note(tokens, loss):
        losses.append([tokens, round(loss, 4)])
        report(tokens=tokens, loss=loss)

    train(RECIPES[name], spec.revisions, save, note)
    log = {
        "recipe_sha256": recipe_digest(name, spec.revisions),
        "recipe": repr(RECIPES[name]),
        "numerics": numerics.told(),
        "loss": losses,
    }
    (partial / "training.json").write_text(json.dumps(log), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    os.replace(partial, folder)


def _worker(name, spec, messages):
    parent = multiprocessing.parent_process()

    def report(**progress):
        if not parent.is_alive():  # killed: nobody waits for this model, and the next start trains it anew
            sys.exit(1)
        messages.put((name, progress))

    try:
        numerics.pin()
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        from transformers.utils import logging

        logging.disable_progress_bar()
        train_to_disk(name, spec, report)
        messages.put((name, {"done": True}))
    except KeyboardInterrupt:
        pass  # the parent was interrupted, too, and says so
    except Exception as error:  # noqa: BLE001 - the parent tells the user
        messages.put((name, {"error": f"{type(error).__name__}: {error}"}))


def train_panel(panel_argument, jobs):
    """Train what has a recipe and is not yet trained, `jobs` models at a time; returns {model: error}.

    Draws one progress bar a model: tokens, loss, time left.  Models without a
    recipe are left alone: their checkpoints come from elsewhere.  Raises PanelError
    if a folder that would be replaced was not made by this program.
    """
    panel = load_panel(panel_argument)
    with_recipe = [(name, spec) for name, spec in panel.models.items() if spec.path and name in RECIPES]
    waiting = [(name, spec) for name, spec in with_recipe if not is_trained(name, spec)]
    for name, spec in waiting:
        folder = ROOT / spec.path
        if folder.exists() and not (folder / "training.json").is_file():
            raise PanelError(
                f"{name} would be trained into {spec.path}, which holds something else; "
                "move it, or give the model another name or path in the panel"
            )
    # The mixture of experts is the slowest a token: started first, it ends with the others.
    waiting.sort(key=lambda item: RECIPES[item[0]].architecture != "olmoe")
    context = multiprocessing.get_context("spawn")
    messages = context.Queue()
    running, bars, failed = {}, {}, {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name, spec = waiting.pop(0)
            running[name] = context.Process(target=_worker, args=(name, spec, messages))
            with numerics.inherited():
                running[name].start()
            bars[name] = tqdm(
                total=spec.revisions[-1].tokens,
                desc=f"training {spec.label}",
                unit="tok",
                unit_scale=True,
                mininterval=0.5 if sys.stderr.isatty() else 20,
            )
        try:
            name, progress = messages.get(timeout=1)
        except queue.Empty:
            for name in [n for n, process in running.items() if not process.is_alive()]:
                failed[name] = f"the process ended with exit code {running.pop(name).exitcode}"
            continue
        if "tokens" in progress:
            bars[name].set_postfix(loss=f"{progress['loss']:.3f}", refresh=False)
            bars[name].update(progress["tokens"] - bars[name].n)
            continue
        running.pop(name).join()
        bars[name].update(bars[name].total - bars[name].n if progress.get("done") else 0)
        bars[name].close()
        if "error" in progress:
            failed[name] = progress["error"]
    return failed


def main(arguments=None):
    """Command line; returns 0, 1 if a training failed, 2 for a mistake in the arguments or the panel."""
    parser = argparse.ArgumentParser(prog="python -m lib.train", description="Train the mini models of a panel.")
    parser.add_argument("--panel", default="mini", help="name of a file in panels/, or a path (default: mini)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="models at a time (default: all cores)")
    options = parser.parse_args(arguments)
    if options.jobs < 1:
        parser.error("--jobs: expected 1 or more")
    try:
        failed = train_panel(options.panel, options.jobs)
    except PanelError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; models that are finished are kept, the others start anew next time", file=sys.stderr)
        return 130
    for name, error in failed.items():
        print(f"training {name} failed: {error}", file=sys.stderr)
    return 1 if failed else 0
