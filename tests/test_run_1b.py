"""The commands on the page "Run the 1B panel yourself", read off the page and run as a new user would.

By default those that take seconds; CIRCUITS_SLOW=1 runs them all, in the page's order.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hub_server
import pytest
import yaml
from conftest import HUB, ROOT

pytestmark = pytest.mark.slow

PAGE = (ROOT / "book" / "run_1b.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.S) for line in block.strip().splitlines()]
SLOW = [  # everything is downloaded, measured and executed
    "python -m lib.run --panel paper --evict",
    "python -m lib.run --panel laptop --evict",
    "snakemake --profile profiles/local --config panel=laptop",
    "!.venv/bin/python -m lib.run --panel laptop --models pythia-70m --evict --skip causal notebooks",
    "!.venv/bin/papermill notebooks/F4_early_circuit.ipynb out.ipynb -p panel laptop -p model pythia-70m -p revision step143000",
    "python -m lib.book --panel paper",
]


@pytest.fixture(scope="module")
def checkout(_stocked, tmp_path_factory):
    """The project as a new user has it, its two panels with few revisions and a batch for the hub's small models."""
    folder = tmp_path_factory.mktemp("checkout") / "circuits"
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    for name in ("paper", "laptop"):
        panel = hub_server.reduced(yaml.safe_load((folder / "panels" / f"{name}.yml").read_text()))
        for spec in panel["models"].values():
            spec["revisions"] = [
                r for r in spec["revisions"] if r["name"] in ("step3000", spec["revisions"][-1]["name"])
            ]
            if len(spec["revisions"]) < 2:
                full = yaml.safe_load((ROOT / "panels" / f"{name}.yml").read_text())["models"].values()
                spec["revisions"] = next(
                    [m["revisions"][0], *spec["revisions"]] for m in full if m["hub"] == spec["hub"]
                )
        (folder / "panels" / f"{name}.yml").write_text(yaml.safe_dump(panel, sort_keys=False))
        if name == "laptop":
            hub_server.stock(HUB, panel)
    return folder


def test_the_page_has_the_commands_that_are_tried_here():
    assert set(SLOW) <= set(COMMANDS) and len(COMMANDS) == 10


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_page_works_as_written(checkout, line):
    slow = bool(os.environ.get("CIRCUITS_SLOW"))
    if line in SLOW and not slow:
        pytest.skip("CIRCUITS_SLOW=1 runs it")
    if "uv venv" in line:
        pytest.skip("sets up an environment, which is here already")
    if "profiles/slurm" in line:
        line += " --dry-run"  # there is no SLURM here
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CIRCUITS_", "SLURM"))}
    # A new user has activated the environment.
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-c", line.removeprefix("!")], cwd=checkout, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "--revisions step3000" in line:
        import pandas as pd

        table = pd.read_parquet(checkout / "results/paper/heads/pythia-1b/step3000.parquet")
        assert len(table) == 4 and table["selectivity_induction"].notna().all()
    if "lib.book" in line:
        page = (checkout / "_build" / "html" / "book" / "F2.html").read_text(encoding="utf-8")
        assert (
            "Pythia 1B" in page
            and "This report is of the panel" in page
            and "Its published figures, recomputed" in page
        )


@pytest.mark.parametrize(
    "model, row", [("pythia-1b", "Pythia 1B"), ("olmo-1b", "OLMo 1B"), ("olmoe-1b-7b", "OLMoE 1B-7B")]
)
def test_the_costs_on_the_page_are_what_the_preflight_computes(model, row):
    from test_preflight import config

    from lib.panels.panel import load_panel
    from lib.tables import preflight

    (cells,) = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith(f"| {row} ")]
    head, ablated = preflight.work(load_panel("paper"), config(model))
    weights = preflight.parameters(config(model))[0] * 4
    assert cells[3].split()[0] == f"{weights / 1e9:.1f}"
    assert cells[4].split()[2] == f"{head / 1e15:.1f}" and cells[5].split()[2] == f"{ablated / 1e15:.1f}"
    rate = preflight.EFFICIENCY * 20e12
    assert 22 <= round(10 * head / rate / 60) <= 28 and 3.75 <= 10 * ablated / rate / 3600 <= 4.95
