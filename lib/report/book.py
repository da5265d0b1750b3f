"""Assemble the report from the narrative, the measurements and the executed notebooks, and build it.

    python -m lib.book [--panel mini] [--pdf]

The site folder (_build/site) is laid out like the project: book/*.md as they are,
book/_generated/*.md from lib.report.pages, runs/ with the executed notebooks, and a table of
contents with all of them.  Only files whose content changed are written, so that Sphinx
rebuilds no more than it must.  --pdf makes the narrative, without the pages of the runs, one PDF.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import yaml
from nbformat.v4 import new_markdown_cell

from lib import lessons, provenance
from lib.files import ROOT, UserError, atomic, results_dir
from lib.formatting import join
from lib.report import colophon, explorer, pages
from lib.report.contents import Report
from lib.report.icon_subset import keep_used_icons
from lib.report.jobs import notebooks, status_of
from lib.report.markdown import render

# A brace: a class follows, which needs the brackets.
RUN_LINK = re.compile(r"\[([^\]]*)\]\((?:\.\./)+runs/[^)]*\)(\{)?")
FINDING_PAGE = re.compile(r"F\d+")
QUOTED = re.compile(r"^```\{literalinclude\} \.\./(.*)$", re.MULTILINE)  # sources are laid beside the pages


# The site folder --------------------------------------------------------------------


def assemble(panel_argument, site, with_runs=True):
    """Lay out the site folder for Jupyter Book; returns the Report.

    Without runs it holds the narrative only, in which links to them are plain words.
    """
    report = Report(panel_argument)
    present = [job for job in report.jobs if report.status[job]] if with_runs else []
    taught = [one for one in lessons.notebooks.plan(panel_argument) if with_runs and status_of(one.output)]
    executed = {f"notebooks/lessons/{one.notebook.name}": nbformat.read(one.output, 4) for one in taught}
    facts = {path.rpartition("/")[2]: lessons.notebooks.facts(notebook) for path, notebook in executed.items()}
    generated = pages.parts(report) | {"lessons": render("lessons", lessons=facts)}

    content = narrative(report) | explorer.files(report)
    content |= {f"book/_generated/{name}.md": text + "\n" for name, text in generated.items()}
    content |= {
        f"runs/{job.finding}/{job.model}/{job.revision}.ipynb": run_page(job, report, present) for job in present
    }
    content |= {path: nbformat.writes(lessons.notebooks.page(notebook)) for path, notebook in executed.items()}
    content["_toc.yml"] = yaml.safe_dump(toc(present, executed), sort_keys=False, allow_unicode=True)
    if not with_runs:
        content |= {path: _without_run_links(text) for path, text in content.items() if path.endswith(".md")}

    for name, text in content.items():
        path, text = site / name, text if isinstance(text, bytes) else text.encode()
        if not path.is_file() or path.read_bytes() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    for path in [p for p in site.rglob("*") if p.is_file() and "_build" not in p.parts]:
        if path.relative_to(site).as_posix() not in content:
            path.unlink()
    return report


def narrative(report):
    """{path in the site: bytes, or text of a page} of what is written by hand; pages get their colophon."""
    content = {"_config.yml": (ROOT / "_config.yml").read_bytes()}
    for path in sorted((ROOT / "book").rglob("*")):
        if path.is_file() and "_generated" not in path.parts:
            text = path.read_bytes()
            if path.suffix == ".md":
                text = text.decode()
                if path.parent.name == "book":  # a page, not a part of one
                    title = text.partition("\n")[0].removeprefix("# ")
                    text += f"\n{colophon.of_page(title, report)}\n"
            content[path.relative_to(ROOT).as_posix()] = text
    for source in QUOTED.findall("".join(text for text in content.values() if isinstance(text, str))):
        content[source] = (ROOT / source).read_bytes()
    return content


def run_page(job, report, present):
    """An executed notebook with links to its neighbours and a colophon."""
    page = nbformat.read(job.output, as_version=4)
    title = page.cells[0].source.partition("\n")[0].removeprefix("# ")
    page.cells.insert(1, new_markdown_cell(neighbours(job, report.panel, present), id="neighbours"))
    page.cells.append(new_markdown_cell(colophon.of_run(job, report, title), id="colophon"))
    return nbformat.writes(page)


def neighbours(job, panel, present):
    """Links of a run page: revisions before and after, its finding's page, the same checkpoint in other findings."""
    there = {(j.finding, j.model, j.revision) for j in present}
    names = [r.name for r in panel.model(job.model).revisions if (job.finding, job.model, r.name) in there]
    at = names.index(job.revision)
    links = [f"← [{name}]({name}.ipynb)" for name in names[:at][-1:]]
    links += [f"[{name}]({name}.ipynb) →" for name in names[at + 1 :][:1]]
    if (ROOT / "book" / f"{job.finding}.md").is_file():
        links.append(f"[{job.finding} over all models](../../../book/{job.finding}.md)")
    explorer_page = f"../../../book/explorer.html#model={job.model}&amp;revision={job.revision}"
    links.append(f'<a href="{explorer_page}">the heads of this checkpoint</a>')
    others = [f for f in notebooks() if f != job.finding and (f, job.model, job.revision) in there]
    if others:
        links.append("this checkpoint in " + join(f"[{f}](../../{f}/{job.model}/{job.revision}.ipynb)" for f in others))
    return " · ".join(links)


def toc(jobs, lesson_files=()):
    """The narrative's table of contents with every run under its finding's page, and the lessons after their first page.

    The part of the findings holds every book/F<number>.md, in order.
    """
    content = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    findings = [path for path in (ROOT / "book").glob("F*.md") if FINDING_PAGE.fullmatch(path.stem)]
    findings.sort(key=lambda path: int(path.stem[1:]))
    for part in content["parts"]:
        files = [chapter["file"] for chapter in part["chapters"]]
        if "book/F1" in files:
            part["chapters"] = [{"file": f"book/{path.stem}"} for path in findings]
        if "book/lessons" in files:
            at = files.index("book/lessons") + 1
            part["chapters"][at:at] = [{"file": file.removesuffix(".ipynb")} for file in lesson_files]
    chapters = {chapter["file"]: chapter for part in content["parts"] for chapter in part["chapters"]}
    for job in jobs:
        chapter = chapters.get(f"book/{job.finding}", chapters["book/status"])
        chapter.setdefault("sections", []).append({"file": f"runs/{job.finding}/{job.model}/{job.revision}"})
    return content


def _without_run_links(text):
    return RUN_LINK.sub(lambda link: f"[{link[1]}]{{" if link[2] else link[1], text)


# The book ---------------------------------------------------------------------------


def build(panel_argument, folder):
    """Assemble in folder/_build/site and build into folder/_build/html, if anything has changed since that was done.

    Returns (exit code of Jupyter Book, path of the first page).  Warnings are errors.
    """
    site, html = folder / "_build" / "site", folder / "_build" / "html"
    stamp, key = folder / "_build" / "made-from", made_from(panel_argument)
    if stamp.is_file() and stamp.read_text() == key and (html / "index.html").is_file():
        return 0, html / "index.html"
    stamp.unlink(missing_ok=True)
    assemble(panel_argument, site)
    code = _jupyter_book(site, folder)
    if code == 0:
        # Sphinx copies these only if it also has a page to write.
        shutil.copytree(site / "book" / "_static", html / "_static", dirs_exist_ok=True)
        keep_used_icons(html)
        with atomic(stamp) as path:
            path.write_text(key)
    return code, html / "index.html"


def made_from(panel_argument):
    """Hash of all that a report is made from: text, code, notebooks, panel, weights, tables, runs, versions, commit."""
    report = Report(panel_argument)
    files, tables = report.sources()
    files += [[name, ROOT / name] for name in ("_config.yml", "_toc.yml", "requirements.txt")]
    trees = {name: ROOT / name for name in ("book", "lib", "notebooks")} | {"results": results_dir(report.panel.name)}
    for name, tree in trees.items():
        found = (path for path in sorted(tree.rglob("*")) if "__pycache__" not in path.parts)
        files += [[f"{name}/{path.relative_to(tree)}", path] for path in found]
    return provenance.digest(
        {
            "files": [[name, provenance.file_digest(path)] for name, path in files if path.is_file()],
            "tables": tables,
            "panel": str(panel_argument),  # as pages name it in commands
            "versions": provenance.versions(*colophon.PACKAGES),
            "commit": provenance.commit(),
        }
    )


def _jupyter_book(site, folder, *options):
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["-W", "-n", "--keep-going", "-q", *options]
    return subprocess.run([program, "build", site, "--path-output", folder, *options], cwd=ROOT).returncode


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def build_pdf(panel_argument, folder):
    """Build the narrative as one page in folder/_build/print and print it with a Chromium browser.

    Returns (exit code, path of the PDF).  Raises BrowserMissing if there is no such browser; the
    page is there then, to be printed from any other.
    """
    printed, pdf = folder / "_build" / "print", folder / "_build" / "report.pdf"
    site = printed / "site"
    assemble(panel_argument, site, with_runs=False)
    config = yaml.safe_load((site / "_config.yml").read_text(encoding="utf-8"))
    # What it registers for this builder makes Sphinx forget how other extensions write theirs; there are no lessons here.
    config["sphinx"]["extra_extensions"].remove("sphinx_exercise")
    del config["sphinx"]["config"]["exercise_style"]
    (site / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    code = _jupyter_book(site, printed, "--builder", "singlehtml")
    if code:
        return code, pdf
    built = printed / "_build" / "singlehtml"
    page = built / "print.html"  # beside _static: Sphinx writes the single page's links as if it were here
    shutil.copyfile(built / "book" / "index.html", page)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise BrowserMissing(f"no Chromium browser was found to make the PDF; print {page} from the browser you have")
    with atomic(pdf) as path, tempfile.TemporaryDirectory() as profile:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        flags += [f"--user-data-dir={profile}", "--virtual-time-budget=20000", "--no-pdf-header-footer"]
        printing = [browser, *flags, f"--print-to-pdf={path}", page.as_uri()]
        code = subprocess.run(printing, capture_output=True).returncode
        if code == 0 and not path.is_file():
            code = 1
    return code, pdf


class BrowserMissing(UserError, RuntimeError):
    """There is no browser to print with."""


def main(arguments=None):
    """Command line; returns Jupyter Book's exit code, 2 for a mistake in the panel or the published tables."""
    parser = argparse.ArgumentParser(prog="python -m lib.book", description="Build the report of a panel.")
    parser.add_argument("--panel", default="mini", help="name of a file in panels/, or a path (default: mini)")
    parser.add_argument("--pdf", action="store_true", help="make the narrative one PDF (needs a Chromium browser)")
    options = parser.parse_args(arguments)
    try:
        code, page = (build_pdf if options.pdf else build)(options.panel, ROOT)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    if code == 0:
        print(f"The report is in {page.relative_to(ROOT)}")
    return code
