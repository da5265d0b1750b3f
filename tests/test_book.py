"""The built report: its pages, links, alt texts; no traceback but that of a run that failed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from bs4 import BeautifulSoup
from conftest import ROOT, TINY, TOKENS
from jinja2 import UndefinedError

from lib.report import book, jobs
from lib.report import pages as generated
from lib.report.contents import Report
from lib.report.execution import finish
from lib.report.markdown import render, turned


@pytest.fixture(scope="module")
def pages(site):
    """{relative path: parsed page} of everything a reader can open."""
    return {
        p.relative_to(site): BeautifulSoup(p.read_text(encoding="utf-8"), "html.parser")
        for p in site.rglob("*.html")
        if "_static" not in p.parts and p.parent != site  # at the top lie search, index and a redirect
    }


def test_every_page_is_there(pages):
    there = {str(p) for p in pages}
    narrative = ["index", "methods", "models", "F1", "F2", "F3", "F4", "F5", "status", "reproduce", "references"]
    narrative += ["ledger", "causal", "crosschecks", "power", "glossary", "run_1b", "lessons", "teachers"]
    assert {f"book/{name}.html" for name in narrative} <= there
    runs = {f"runs/F{i}/{model}/{revision}.html" for i in range(1, 6) for model in TINY for revision in TOKENS}
    assert runs <= there and len(runs) == 30


def test_each_lesson_is_a_page_with_its_solutions_folded_and_right(pages):
    from lib.lessons import notebooks as lessons

    contents = {a["href"] for a in text_of(pages, "lessons").find_all("a", href=True)}
    for path in lessons.notebooks():
        name = f"notebooks/lessons/{path.stem}.html"
        page = pages[next(p for p in pages if str(p) == name)].find("main")
        assert f"../{name}" in contents
        exercises, solutions = page.find_all("div", class_="exercise"), page.find_all("div", class_="solution")
        assert len(exercises) == len(solutions) >= 4
        for solution in solutions:
            assert "dropdown" in solution["class"]
            assert [check.get_text()[0] for check in solution.find_all("div", class_="check")] == ["✓"]
        assert len(page.find_all("div", class_="check")) == len(solutions), "a placeholder's output is shown"


def test_every_link_within_the_report_leads_somewhere(site, pages):
    broken = []
    for path, page in pages.items():
        for tag, attribute in (("a", "href"), ("img", "src"), ("script", "src"), ("link", "href")):
            for found in page.find_all(tag, **{attribute: True}):
                target = unquote(found[attribute])
                if re.match(r"[a-z]+:|//|#", target) or "_sources" in target:
                    continue
                file, _, anchor = target.partition("#")
                file = (site / path).parent / file.split("?")[0]
                if not file.exists():
                    broken.append((str(path), target))
                elif anchor and "=" not in anchor and file.suffix == ".html":  # the explorer keeps its state there
                    other = pages[file.resolve().relative_to(site.resolve())]
                    if not other.find(id=anchor):
                        broken.append((str(path), target))
    assert not broken


def test_the_run_pages_are_linked_from_their_finding_and_from_the_status_page(pages):
    def targets(name):
        return {
            a["href"] for a in pages[next(p for p in pages if str(p) == f"book/{name}.html")].find_all("a", href=True)
        }

    for model in TINY:
        for revision in TOKENS:
            for i in range(1, 6):
                link = f"../runs/F{i}/{model}/{revision}.html"
                assert link in targets("status") and link in targets(f"F{i}")


def test_a_run_page_leads_to_its_neighbours(pages):
    for path, page in pages.items():
        if str(path).startswith("runs/"):
            finding, model, revision = path.with_suffix("").parts[1:]
            targets = {a["href"] for a in page.find("main").find_all("a", href=True)}
            at = list(TOKENS).index(revision)
            near = {f"{name}.html" for name in list(TOKENS)[max(0, at - 1) : at + 2] if name != revision}
            assert near <= targets and f"../../../book/{finding}.html" in targets
            assert {f"../../F{i}/{model}/{revision}.html" for i in range(1, 6) if f"F{i}" != finding} <= targets


def test_every_image_has_an_alt_text_with_numbers_and_every_figure_its_data(pages):
    n = 0
    for path, page in pages.items():
        for image in page.find("main").find_all("img"):
            assert len(image.get("alt", "")) > 40 and re.search(r"\d", image["alt"]), f"{path}: {image.get('alt')!r}"
        for figure in page.find_all("figure", class_="drawn"):
            n += 1
            assert figure.find("figcaption").find("a", download=True)["href"].startswith("data:text/csv;base64,")
            assert figure.find("img")
    assert n >= 30 + 5


def test_the_first_page_has_a_figure_of_both_panels_and_a_card_a_finding(pages):
    page = text_of(pages, "index")
    figure = page.find("figure", class_="drawn").find("img")["alt"]
    for label in ("Pythia 1B", "OLMo 1B", "OLMoE 1B-7B", "Tiny-neox", "Tiny-olmo"):
        assert label in figure
    cards = page.find_all("div", class_="sd-card")
    assert [card.find("a")["href"] for card in cards] == [*(f"F{i}.html" for i in range(1, 6)), "ledger.html"]
    for card in cards[:5]:
        assert card.find("span", class_="verdict") and card.find("span", class_="number").get_text()


def test_the_figures_of_the_narrative_have_numbers_of_their_own(pages):
    numbers = [
        re.match(r"Figure ([A-Z]?\d?\.?\d)\. ", caption.get_text())[1]
        for path, page in pages.items()
        if str(path).startswith("book/") and "explorer" not in str(path)
        for caption in page.select("figure.drawn > figcaption")
    ]
    assert len(numbers) == len(set(numbers)) >= 18 and {"1", "F2.1", "F2.2", "F2.3", "F5.4"} <= set(numbers)


def colophon(page):
    """(the line that makes a page again, the rest of its end)."""
    [end] = page.find_all("details", class_="colophon")
    return end.find("div", class_="highlight-bash").get_text().strip(), end.get_text()


def test_every_page_says_how_to_make_it_again_and_how_to_cite_it(pages):
    for path, page in pages.items():
        if str(path).startswith(("book/", "runs/")) and path.name not in ("index_dark.html",):
            line, end = colophon(page.find("main"))
            kind = "python -m lib.book" if str(path).startswith("book/") else "papermill notebooks/"
            assert line.startswith(kind) and "\n" not in line, path
            for part in (
                "Panel: Untrained tiny models",
                "seconds",
                "commit",
                "seed 42",
                "torch",
                "@incollection{circuits_",
            ):
                assert part in end, (path, part)


def test_the_line_of_a_run_page_makes_it_again(site, pages, tmp_path, monkeypatch):
    for name in ("notebooks", "lib"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("CIRCUITS_RESULTS", str(site.parents[1] / "results"))
    page = pages[Path("runs/F2/tiny-olmo/step10.html")].find("main")
    subprocess.run(colophon(page)[0], shell=True, cwd=tmp_path, check=True, capture_output=True)
    made = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    [figure, *_] = [
        o.data["text/html"] for c in made.cells for o in c.get("outputs", []) if "<figure" in str(o.get("data"))
    ]
    assert BeautifulSoup(figure, "html.parser").find("img")["src"] == page.find("figure").find("img")["src"]


def test_the_status_map_has_a_mark_a_run(pages):
    for table in text_of(pages, "status").select(".map table"):
        marks = table.select("td a")
        assert len(marks) == 5 * len(TOKENS)
        assert all(mark.select_one("[aria-hidden]").get_text() in "✓✗?" for mark in marks)


def test_a_report_is_built_again_only_if_something_has_changed(site, tmp_path, monkeypatch):
    folder = site.parents[1]
    panel, results = str(folder / "tiny.yml"), folder / "results"
    monkeypatch.setenv("CIRCUITS_RESULTS", str(results))

    def refuse(*_):
        raise AssertionError("built again")

    with monkeypatch.context() as unchanged:
        unchanged.setattr(book, "assemble", refuse)
        assert book.build(panel, folder) == (0, site / "index.html")

    before = book.made_from(panel)
    monkeypatch.setenv("CIRCUITS_RESULTS", str(shutil.copytree(results, tmp_path / "results")))
    assert book.made_from(panel) == before
    run_page = tmp_path / "results" / "tiny" / "runs" / "F1" / "tiny-olmo" / "step0.ipynb"
    run_page.write_text(run_page.read_text() + "\n")
    other_run = book.made_from(panel)
    monkeypatch.setattr("lib.tables.heads.weights_digest", lambda folder: "other weights")
    assert len({before, other_run, book.made_from(panel)}) == 3


def text_of(pages, name):
    return pages[next(p for p in pages if str(p) == f"book/{name}.html")].find("main")


@pytest.mark.parametrize("finding", ["F1", "F2", "F3", "F4", "F5"])
def test_each_finding_page_holds_the_four_columns_of_evidence(pages, finding):
    page = text_of(pages, finding)
    table = page.find("div", class_="evidence").find("table")
    header = [cell.get_text() for cell in table.find_all("th")]
    assert header[1:] == [
        "The paper claims",
        "Its published figures, recomputed",
        "Measured here",
        "How sure that is",
    ]
    for row in table.find("tbody").find_all("tr"):
        _, claim, published, ours, sure = (cell.get_text() for cell in row.find_all("td"))
        assert claim and sure and "resamples" in sure
        for cell in (published, ours):
            assert cell.split()[0] in ("holds", "fails", "undetermined")


@pytest.mark.parametrize("finding", ["F1", "F2", "F3", "F4", "F5"])
def test_each_finding_page_draws_the_published_panel_and_says_what_its_verdicts_rest_on(pages, finding):
    page = text_of(pages, finding)
    names = {a["download"] for a in page.find_all("a", download=True)}
    assert {f"{finding}_published.csv", f"{finding}_panel.csv", f"{finding}_assumptions.csv"} <= names
    for assumption in ("clean baseline", "by best class", "with attention mass", "mass instead of ratios"):
        assert page.find("strong", string=assumption), assumption
    assert "Ratios without attention." in page.get_text() and "Other sequences." in page.get_text()


def test_the_ledger_page_has_a_row_a_statement(pages):
    from lib.paper import ledger, published

    entries = ledger.entries(published.load())
    rows = {
        row.find("td").get_text(): row.get_text() for row in text_of(pages, "ledger").find_all("tr") if row.find("td")
    }
    assert set(entries["id"]) <= set(rows) and len(entries) >= 25
    for entry in entries.itertuples():
        assert entry.verdict in rows[entry.id]


def test_published_tables_can_be_downloaded(site, pages):
    links = [a["href"] for a in text_of(pages, "ledger").find_all("a", href=True) if a["href"].endswith(".csv")]
    assert len(links) == 3 and all((site / "book" / link).resolve().is_file() for link in links)


def test_every_run_page_says_what_its_verdict_rests_on(pages):
    for path, page in pages.items():
        if str(path).startswith("runs/"):
            assert "What it rests on:" in page.find("main").get_text(), path
            assert len(page.find_all("figure", class_="drawn")) == 2, path


def test_no_page_shows_a_traceback_or_a_number_that_is_none(pages):
    for path, page in pages.items():
        main = page.find("main").get_text()
        if str(path) == "book/built.html":  # it quotes code, where None is a word
            for quoted in page.find("main").select("div.highlight"):
                main = main.replace(quoted.get_text(), "")
        assert "Traceback" not in main or str(path) == "book/reproduce.html", path
        assert not re.search(r"\bnan\b|\bNone\b(?! of)|<NA>", main), path


def test_titles_are_each_runs_own(pages):
    titles = [page.find("h1").get_text() for path, page in pages.items() if str(path).startswith("runs/")]
    assert len(titles) == len(set(titles))
    assert any(t.startswith("F2 · Tiny-olmo · step1000 (1M tokens)") for t in titles)


def test_every_run_page_tells_how_to_make_it_again(pages):
    for path, page in pages.items():
        if str(path).startswith("runs/"):
            finding, model, revision = path.with_suffix("").parts[1:]
            text = page.find("main").get_text()
            assert f"-p model {model} -p revision {revision}" in text and f"papermill notebooks/{finding}_" in text


def test_nothing_is_fetched_from_elsewhere(pages):
    for path, page in pages.items():
        for tag, attribute in (("script", "src"), ("link", "href"), ("img", "src")):
            for found in page.find_all(tag, **{attribute: True}):
                assert not re.match(r"(https?:)?//", found[attribute]), f"{path}: {found[attribute]}"


@pytest.mark.slow
def test_a_failed_run_shows_on_the_status_page(tiny_panel, tmp_path):
    job = jobs.plan(tiny_panel, ["F1"], ["tiny-olmo"], ["step0"])[0]
    import nbformat

    notebook = finish(nbformat.read(jobs.notebook_of("F1"), as_version=4), job, "key", "RuntimeError: on purpose")
    job.output.parent.mkdir(parents=True)
    nbformat.write(notebook, job.output)
    book.assemble(tiny_panel, tmp_path / "site")
    status = (tmp_path / "site" / "book" / "_generated" / "status.md").read_text()
    assert "**0 of 30 runs done**, 1 failed, 29 missing." in status
    assert '<span class="unseen">F1 failed</span>](../runs/F1/tiny-olmo/step0.ipynb){.verdict .failed}' in status
    assert "RuntimeError: on purpose" in status
    assert (tmp_path / "site" / "runs" / "F1" / "tiny-olmo" / "step0.ipynb").is_file()


def test_a_published_table_that_cannot_be_used_is_named_without_a_traceback(tiny_panel, tmp_path, monkeypatch, capsys):
    import shutil

    from lib.paper import published

    shutil.copytree(published.DATA, tmp_path / "published")
    table = tmp_path / "published" / "published_pr.csv"
    table.write_text(table.read_text().replace("1.8860889673233032", "much"))
    monkeypatch.setattr(Report, "published", property(lambda _: published.load(tmp_path / "published")))
    monkeypatch.setattr(book, "ROOT", tmp_path)
    monkeypatch.setattr(generated, "PAGES", {"ledger": generated.PAGES["ledger"]})
    assert book.main(["--panel", tiny_panel]) == 2
    error = capsys.readouterr().err
    assert "published_pr.csv, row 2, column pr: found 'much'" in error and "Traceback" not in error


def test_the_table_of_contents_names_the_pages_that_exist():
    content = book.toc([])
    files = [content["root"], *[c["file"] for part in content["parts"] for c in part["chapters"]]]
    assert all((ROOT / f"{file}.md").is_file() for file in files)
    assert {f"book/{p.stem}" for p in (ROOT / "book").glob("*.md")} == set(files)


def test_the_page_of_a_finding_that_the_table_of_contents_does_not_list_follows_the_last_one(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    for name in ("F5", "F10", "F6"):
        (tmp_path / "book" / f"{name}.md").touch()
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    monkeypatch.setattr(book, "ROOT", tmp_path)
    job = jobs.Job(tmp_path / "F6_x.ipynb", "mini", "mini", "F6", "olmo-mini", "step0")
    chapters = [c for part in book.toc([job])["parts"] for c in part["chapters"]]
    at = [c["file"] for c in chapters].index("book/F5")
    assert chapters[at + 1 : at + 3] == [
        {"file": "book/F6", "sections": [{"file": "runs/F6/olmo-mini/step0"}]},
        {"file": "book/F10"},
    ]


def test_a_table_is_turned_with_empty_cells_where_they_belong():
    assert turned("|  | a |\n|---|\n| x | 1 |\n| y |  |\n") == "|  | x | y |\n|---|---|---|\n| a | 1 |  |"


def test_a_template_names_what_it_was_not_given():
    with pytest.raises(UndefinedError, match="labels"):
        render("glance", rows=[], published_models=[])
