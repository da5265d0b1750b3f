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

from lib import lessons, provenance, tables
from lib.files import ROOT, UserError, atomic, results_dir
from lib.formatting import join
from lib.panels import load_panel, panel_path
from lib.report import colophon
from lib.report import explorer as explorer_pages
from lib.report.contents import Report
from lib.report.icons import keep_used_icons
from lib.report.jobs import notebooks, status_of
from lib.report.markdown import table
from lib.report.pages import FINDING_PAGES, PAGES

RUN_LINK = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+runs/[^)]*\)(\{)?"
)  # a brace: a class follows, which needs the brackets


def assemble(panel_argument, site, with_runs=True):
    """Lay out the site folder for Jupyter Book; returns the Report.

    Without runs it holds the narrative only, in which links to them are plain words.
    """
    report = Report(load_panel(panel_argument), panel_argument)
    facts, keep = colophon.facts_of(report), set()

    def put(relative, content):
        path = site / relative
        keep.add(path)
        if path.suffix == ".md" and not with_runs:
            content = RUN_LINK.sub(
                lambda link: f"[{link[1]}]{{" if link[2] else link[1],
                content if isinstance(content, str) else content.decode(),
            )
        content = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    for path in [ROOT / "_config.yml", *sorted((ROOT / "book").rglob("*"))]:
        if path.is_file() and "_generated" not in path.parts:
            content = path.read_bytes()
            if path.suffix == ".md" and path.parent.name == "book":
                title = content.decode().partition("\n")[0].removeprefix("# ")
                content += f"\n{colophon.of_page(title, facts, panel_argument)}\n".encode()
            put(path.relative_to(ROOT), content)
    for source in quoted():
        put(source, (ROOT / source).read_bytes())
    for name, page in PAGES.items():
        put(f"book/_generated/{name}.md", page(report) + "\n")
    for path, content in explorer_pages.files(report).items():
        put(path, content)
    for id in notebooks():
        for name, page in FINDING_PAGES.items():
            put(f"book/_generated/{id}_{name}.md", page(report, id) + "\n")
    present = [job for job in report.jobs if report.status[job]] if with_runs else []
    for job in present:
        page = nbformat.read(job.output, as_version=4)
        title = page.cells[0].source.partition("\n")[0].removeprefix("# ")
        page.cells.insert(1, nbformat.v4.new_markdown_cell(neighbours(job, report.panel, present), id="neighbours"))
        page.cells.append(nbformat.v4.new_markdown_cell(colophon.of_run(job, report, title), id="colophon"))
        put(f"runs/{job.finding}/{job.model}/{job.revision}.ipynb", nbformat.writes(page))
    taught = [lesson for lesson in lessons.notebooks.plan(panel_argument) if with_runs and status_of(lesson.output)]
    put("book/_generated/lessons.md", contents_of_lessons(taught) + "\n")
    for lesson in taught:
        put(
            f"notebooks/lessons/{lesson.notebook.name}",
            nbformat.writes(lessons.notebooks.page(nbformat.read(lesson.output, 4))),
        )
    put("_toc.yml", yaml.safe_dump(toc(present, taught), sort_keys=False, allow_unicode=True))
    for path in [p for p in site.rglob("*") if p.is_file() and p not in keep and "_build" not in p.parts]:
        path.unlink()
    return report


def contents_of_lessons(present):
    """The table of the lessons as Markdown; present: those that have been executed."""
    if not present:
        return "The lessons have not been executed for this panel."
    rows = []
    for lesson in present:
        title, minutes, about = lessons.notebooks.facts(nbformat.read(lesson.notebook, as_version=4))
        rows.append((f"[{title}](../notebooks/lessons/{lesson.notebook.name})", f"{minutes}&nbsp;min", about))
    return table(rows, ("lesson", "time", "what you do"))


def neighbours(job, panel, present):
    """Links of a run page: revisions before and after, its finding's page, the same checkpoint in other findings."""
    there = {(j.finding, j.model, j.revision) for j in present}
    names = [r.name for r in panel.model(job.model).revisions]
    names = [name for name in names if (job.finding, job.model, name) in there]
    at = names.index(job.revision)
    links = []
    if at > 0:
        links.append(f"← [{names[at - 1]}]({names[at - 1]}.ipynb)")
    if at + 1 < len(names):
        links.append(f"[{names[at + 1]}]({names[at + 1]}.ipynb) →")
    if (ROOT / "book" / f"{job.finding}.md").is_file():
        links.append(f"[{job.finding} over all models](../../../book/{job.finding}.md)")
    explorer = f"../../../book/explorer.html#model={job.model}&amp;revision={job.revision}"
    links.append(f'<a href="{explorer}">the heads of this checkpoint</a>')
    others = [f for f in notebooks() if f != job.finding and (f, job.model, job.revision) in there]
    if others:
        links.append("this checkpoint in " + join(f"[{f}](../../{f}/{job.model}/{job.revision}.ipynb)" for f in others))
    return " · ".join(links)


def quoted():
    """Sources of which pages of book/ quote lines, relative to the project's root: they are laid beside the pages."""
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "book").glob("*.md"))
    return sorted(
        {found for text in texts for found in re.findall(r"^```\{literalinclude\} \.\./(.*)$", text, re.MULTILINE)}
    )


def toc(jobs, taught=()):
    """The narrative's table of contents with every run under its finding's page, and the lessons after their first page."""
    content = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    findings = sorted((ROOT / "book").glob("F*.md"), key=lambda path: int(path.stem[1:]))
    next(part for part in content["parts"] if part["caption"] == "Findings")["chapters"] = [
        {"file": f"book/{path.stem}"} for path in findings
    ]
    chapters = {c["file"]: c for part in content["parts"] for c in part["chapters"]}
    for job in jobs:
        chapter = chapters.get(f"book/{job.finding}", chapters["book/status"])
        chapter.setdefault("sections", []).append({"file": f"runs/{job.finding}/{job.model}/{job.revision}"})
    for part in content["parts"]:
        files = [c["file"] for c in part["chapters"]]
        if "book/lessons" in files:
            at = files.index("book/lessons") + 1
            part["chapters"][at:at] = [{"file": f"notebooks/lessons/{lesson.notebook.stem}"} for lesson in taught]
    return content


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
    panel = load_panel(panel_argument)
    trees = {
        "book": ROOT / "book",
        "lib": ROOT / "lib",
        "notebooks": ROOT / "notebooks",
        "results": results_dir(panel.name),
    }
    files = [[name, ROOT / name] for name in ("_config.yml", "_toc.yml", "requirements.txt")]
    files += [["panel", panel_path(panel_argument)]]
    files += [[name, ROOT / spec.path / "training.json"] for name, spec in panel.models.items() if spec.path]
    for name, tree in trees.items():
        found = (path for path in sorted(tree.rglob("*")) if "__pycache__" not in path.parts)
        files += [[f"{name}/{path.relative_to(tree)}", path] for path in found]
    measured = [
        [
            name,
            r.name,
            tables.heads.sources(panel, name, r.name),
            *(k.current(panel, name, r.name) for k in tables.sweep.MEASUREMENTS.values()),
        ]
        for name, spec in panel.models.items()
        for r in spec.revisions
    ]
    return provenance.digest(
        {
            "files": [[name, provenance.file_digest(path)] for name, path in files if path.is_file()],
            "tables": measured,
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
    printed = folder / "_build" / "print"
    site = printed / "site"
    assemble(panel_argument, site, with_runs=False)
    config = yaml.safe_load((site / "_config.yml").read_text(encoding="utf-8"))
    # What it registers for this builder makes Sphinx forget how other extensions write theirs; there are no lessons here.
    config["sphinx"]["extra_extensions"].remove("sphinx_exercise")
    del config["sphinx"]["config"]["exercise_style"]
    (site / "_config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    code = _jupyter_book(site, printed, "--builder", "singlehtml")
    built, pdf = printed / "_build" / "singlehtml", folder / "_build" / "report.pdf"
    if code:
        return code, pdf
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
