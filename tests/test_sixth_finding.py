"""A finding is one module, one notebook, one page: a sixth, added to a copy of the project, is in the whole report."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
import yaml
from bs4 import BeautifulSoup
from conftest import ROOT, panel_content

MODULE = '''
"""A small finding for a test: the model has a previous-token head at this revision."""

import pandas as pd

from lib.findings.counting import members
from lib.findings.judging import FAILS, HOLDS, UNDETERMINED, Judgement, Rule


@Rule(
    "F6",
    "A previous-token head",
    "The model has a previous-token head.",
    claims={},
    sweeps=("classify",),
    words={
        HOLDS: "a head of this revision is a previous-token head",
        FAILS: "none is",
        UNDETERMINED: "never: a head is one or is not",
    },
)
def previous_token_head(heads, at, counting, counterpart=None):
    """F6: whether any head gives the previous token enough of its last query's attention."""
    mask = members(heads, "previous_token", counting.thresholds.classify, counting)[at]
    names = heads.labels(mask)
    verdict = HOLDS if names else FAILS
    reason = f"{len(names)} heads pass the threshold at {heads.names[at]}."

    def write(intervals):
        return f"Previous-token heads here: {len(names)}.", pd.DataFrame({"head": names})

    return Judgement(verdict, reason, f"{len(names)} heads", {"heads": names}, write)
'''
PAGE = """# F6 · A previous-token head

```{include} _generated/F6_claim.md
```

## Evidence

```{include} _generated/F6_evidence.md
```

```{include} _generated/F6_published.md
```

```{include} _generated/F6_panel.md
```

```{include} _generated/F6_assumptions.md
```

## All runs

```{include} _generated/F6_runs.md
```
"""


@pytest.mark.slow
def test_a_sixth_finding_needs_a_module_a_notebook_and_a_page(tiny_models, tmp_path):
    copy = tmp_path / "project"
    kept = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in kept.stdout.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    (copy / "lib" / "findings" / "F6.py").write_text(MODULE.lstrip())
    (copy / "book" / "F6.md").write_text(PAGE)
    notebook = nbformat.read(copy / "notebooks" / "F1_zero_bos_floor.ipynb", as_version=4)
    notebook.cells = [c for c in notebook.cells if not c.id.startswith("figure")]  # F1's own map
    for cell in notebook.cells:
        cell.source = cell.source.replace("F1 · The zero-BOS floor", "F6 · A previous-token head").replace("F1", "F6")
    nbformat.write(notebook, copy / "notebooks" / "F6_previous_token.ipynb")

    content = panel_content(tiny_models)
    (name, model) = next(iter(content["models"].items()))
    content["models"] = {name: model | {"revisions": model["revisions"][:2]}}
    panel = tmp_path / "small.yml"
    panel.write_text(yaml.safe_dump(content, sort_keys=False))
    environment = os.environ | {"CIRCUITS_RESULTS": str(tmp_path / "results")}
    for command in (["lib.run", "--findings", "F6", "--jobs", "1"], ["lib.book"]):
        line = [sys.executable, "-m", command[0], "--panel", str(panel), *command[1:]]
        done = subprocess.run(line, cwd=copy, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    html = copy / "_build" / "html"
    text = lambda page: BeautifulSoup((html / page).read_text(encoding="utf-8"), "html.parser")  # noqa: E731
    assert "F6 · A previous-token head" in text("book/index.html").find("main").get_text()
    runs = [f"runs/F6/{name}/{revision['name']}.html" for revision in model["revisions"][:2]]
    for page in ("book/status.html", "book/F6.html"):
        links = {a["href"].removeprefix("../") for a in text(page).find("main").find_all("a", href=True)}
        assert set(runs) <= links, page
    for run in runs:
        assert "Previous-token heads here" in text(run).find("main").get_text()
    assert text("book/index.html").find("nav", class_="bd-links").find("a", href="F6.html")
