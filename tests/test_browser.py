"""The built report in a real browser, offline: no request leaves the site, pages are light, axe finds nothing serious.

The browser is the system's Chromium.  Without one these tests are skipped, or fail where
REQUIRE_BROWSER is set, as in .ci/run.
"""

import gzip
import json
import os
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from lib.report.book import BROWSERS

BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
REQUIRED = bool(os.environ.get("REQUIRE_BROWSER"))
pytestmark = pytest.mark.skipif(
    BROWSER is None and not REQUIRED,
    reason=f"no browser: none of {', '.join(BROWSERS)} is installed (on Debian: apt-get install chromium)",
)

RUN = "runs/F2/tiny-olmo/step10.html"
KINDS = {
    "first page": "book/index.html",
    "methods": "book/methods.html",
    "models": "book/models.html",
    "finding": "book/F1.html",
    "finding over all models": "book/F5.html",
    "run": RUN,
    "explorer": "book/explorer.html#model=tiny-olmo&revision=step10&head=L1H0",
    "index of heads": "book/heads.html",
    "ledger": "book/ledger.html",
    "causal": "book/causal.html",
    "crosschecks": "book/crosschecks.html",
    "status": "book/status.html",
    "reproduce": "book/reproduce.html",
    "how it is built": "book/built.html",
    "costs": "book/costs.html",
    "run the 1B panel": "book/run_1b.html",
    "lessons": "book/lessons.html",
    "lesson": "notebooks/lessons/2_find_an_induction_head.html",
    "teachers": "book/teachers.html",
    "glossary": "book/glossary.html",
    "references": "book/references.html",
    "search": "search.html?q=induction",
}
WITH_MATHEMATICS = ("methods", "causal", "lesson")
DRAWN = {"search": "#search-results li", "explorer": "#explorer svg"}  # by scripts, after loading
WIDTHS = {"desktop": 1280, "phone": 390}


class Site(SimpleHTTPRequestHandler):
    """Serves files compressed, as web hosts do."""

    def do_GET(self):
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            return self.send_error(404)
        with open(path, "rb") as file:
            body = gzip.compress(file.read(), 6, mtime=0)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def chromium():
    """Chromium without a network: every name but this machine's address leads nowhere."""
    if BROWSER is None:
        pytest.fail(f"REQUIRE_BROWSER is set and none of {', '.join(BROWSERS)} is installed")
    options = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(chromium, site):
    """The built report on a local server; asks for the browser first, so that nothing is built if there is none."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Visit:
    """A page that was opened, and what happened on the way.

    away: addresses elsewhere that it asked for.  errors: what scripts and the console
    complain of, and requests that failed.  loaded: the requests that were answered.
    """

    def __init__(self, page, url):
        self.page, self.away, self.errors, self.loaded = page, [], [], []
        here = urlsplit(url)[:2]
        page.on(
            "request", lambda r: self.away.append(r.url) if urlsplit(r.url)[:2] not in (here, ("data", "")) else None
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._listen)
        page.on("requestfinished", lambda request: self.loaded.append(request))
        page.on("requestfailed", lambda request: self.errors.append(f"{request.url}: {request.failure}"))
        page.goto(url)
        page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise.then(() => null)")

    def _listen(self, said):
        if said.type in ("error", "warning"):
            self.errors.append(f"{said.text} ({said.location['url']})")

    def weight(self):
        """Bytes it took: (as sent, that is compressed, as they lie on the disk)."""
        sent = sum(request.sizes()["responseBodySize"] for request in self.loaded)
        return sent, sum(len(request.response().body()) for request in self.loaded)


@contextmanager
def opened(chromium, url, **context):
    """Visit a page with nothing in the cache."""
    with chromium.new_context(reduced_motion="reduce", **context) as session:  # no colours half-way between two
        yield Visit(session.new_page(), url)


def serious(page):
    """What axe finds that is serious or critical, or a step in the order of headings: {rule: [elements]}."""
    return {
        violation["id"]: [node["html"][:200] for node in violation["nodes"][:3]]
        for violation in Axe().run(page).response["violations"]
        if violation["impact"] in ("serious", "critical") or violation["id"] == "heading-order"
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_needs_nothing_from_elsewhere_is_light_and_accessible(chromium, address, kind):
    with opened(chromium, address + KINDS[kind]) as visit:
        page = visit.page
        if kind in DRAWN:
            page.wait_for_selector(DRAWN[kind])
        assert page.locator("main h1:visible").count() == 1

        formulas = page.locator(".math").count()
        assert page.locator("mjx-container").count() == formulas and (formulas > 0) == (kind in WITH_MATHEMATICS)
        assert any("mathjax" in request.url for request in visit.loaded) == (formulas > 0)

        # What is counted: all that the browser loads on a first visit.  A web host sends it compressed, and so it
        # is counted; the first page keeps its limit without that as well.  (Search goes on to load what it finds.)
        sent, whole = visit.weight()
        assert kind == "search" or sent < 600_000
        assert kind != "first page" or whole < 1_000_000

        assert visit.away == [] and visit.errors == []

        for device, width in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": 900})
            page.reload()  # the theme decides on loading what can be scrolled and must take the focus
            if kind in DRAWN:
                page.wait_for_selector(DRAWN[kind])
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_function("scheme => document.documentElement.dataset.theme == scheme", arg=scheme)
                assert serious(page) == {}, f"{scheme}, {device}"
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert overflow <= 0, f"the page itself scrolls sideways on a {device}"


@pytest.mark.parametrize("kind", ["first page", "methods", "run", "explorer"])
def test_a_page_works_when_opened_from_the_disk(chromium, site, kind):
    path, _, fragment = KINDS[kind].partition("#")
    with opened(chromium, f"{(site / path).as_uri()}#{fragment}") as visit:
        if kind in DRAWN:
            visit.page.wait_for_selector(DRAWN[kind])
        assert visit.away == [] and visit.errors == []


def test_search_finds_a_head_where_it_is_shown(chromium, address):
    with opened(chromium, address + "search.html?q=L1H1") as visit:
        visit.page.wait_for_selector("#search-results li a")
        found = visit.page.locator("#search-results li a").evaluate_all("links => links.map(a => a.pathname)")
        assert "/book/heads.html" in found


def test_search_says_when_it_finds_nothing(chromium, address):
    with opened(chromium, address + "search.html?q=zzzzz") as visit:
        visit.page.wait_for_selector("#search-results :text('did not match')")


# The head explorer ------------------------------------------------------------------


def said(page, words):
    """Wait until the explorer's summary holds some words."""
    page.wait_for_function("w => document.getElementById('explorer-said').textContent.includes(w)", arg=words)


def test_the_explorer_shows_the_head_that_its_address_names(chromium, address):
    with opened(chromium, address + KINDS["explorer"]) as visit:
        page = visit.page
        said(page, "L1H0 of Tiny-olmo at step10.")
        assert page.get_by_label("Model").input_value() == "tiny-olmo"
        assert (page.get_by_label("Layer").input_value(), page.get_by_label("Head").input_value()) == ("1", "0")
        rows = page.locator("table.numbers").nth(0).locator("tbody tr")
        assert rows.count() == 4
        for cells in rows.all_inner_texts():
            shares = [float(cell.removesuffix(" %")) for cell in cells.split("\t")[1:]]
            assert abs(sum(shares) - 100) < 3  # 64 values in thousandths
        assert page.locator("#explorer svg").count() == 4 + 2
        for label in page.locator("#explorer svg").evaluate_all("all => all.map(svg => svg.ariaLabel)"):
            assert label.count("%") == 5 or "over training" in label


def test_the_explorer_goes_by_keyboard_and_keeps_its_address(chromium, address):
    with opened(chromium, address + "book/explorer.html#model=tiny-neox&revision=step0&head=L0H1") as visit:
        page = visit.page
        said(page, "L0H1 of Tiny-neox at step0.")
        page.get_by_label("Revision").focus()
        page.keyboard.press("ArrowRight")
        said(page, "at step10.")
        assert page.get_by_label("Revision").get_attribute("aria-valuetext") == "step10, 10k tokens"
        page.keyboard.press("End")
        said(page, "at step1000.")
        page.get_by_label("Layer").focus()
        page.keyboard.press("ArrowDown")
        said(page, "L1H1 of Tiny-neox at step1000.")
        assert urlsplit(page.url).fragment == "model=tiny-neox&revision=step1000&head=L1H1"
        page.get_by_label("Model").select_option("tiny-olmo")
        said(page, "L1H1 of Tiny-olmo at step1000.")
        page.evaluate("location.hash = 'model=tiny-olmo&revision=step0&head=L2H0'")
        said(page, "L2H0 of Tiny-olmo at step0.")
        page.evaluate("location.hash = 'model=nobody&revision=never&head=L9H9'")
        said(page, "L0H0 of ")
        assert visit.errors == []


def test_the_explorer_shows_what_was_measured(chromium, address, site):
    """The number in the page is the number in the data file, which tests/test_explorer.py holds against the table."""
    text = (site / "_static" / "explorer" / "tiny-olmo.js").read_text()
    data = json.loads(text[text.index(", ") + 2 : text.rindex(");")])
    with opened(chromium, address + KINDS["explorer"]) as visit:
        said(visit.page, data["numbers"]["L1H0"]["said"][1])
        shown = visit.page.locator("table.numbers").nth(1).locator("tbody tr td:nth-child(3)").all_inner_texts()
        assert shown == [f"{100 * of[1]:.1f} %" for of in data["numbers"]["L1H0"]["attention"].values()]


def test_the_explorer_says_so_if_a_data_file_is_missing(chromium, address):
    with chromium.new_context() as session:
        page = session.new_page()
        page.route("**/explorer/tiny-olmo.js", lambda route: route.abort())
        page.goto(address + KINDS["explorer"])
        said(page, "Nothing can be shown: the data file tiny-olmo.js could not be loaded.")
        assert page.locator("#explorer figure img").is_visible()


def test_without_scripts_a_figure_stands_in_for_the_explorer(chromium, address):
    with chromium.new_context(java_script_enabled=False) as session:
        page = session.new_page()
        page.goto(address + "book/explorer.html")
        assert page.locator("#explorer figure img").is_visible() and page.locator("#explorer select").count() == 0


def test_the_narrative_becomes_one_pdf(site, tmp_path, monkeypatch):
    from lib.report import book

    monkeypatch.setenv("CIRCUITS_RESULTS", str(site.parents[1] / "results"))
    code, pdf = book.build_pdf(str(site.parents[1] / "tiny.yml"), tmp_path)
    assert code == 0 and pdf.read_bytes().startswith(b"%PDF") and pdf.stat().st_size > 300_000
    page = (tmp_path / "_build" / "print" / "_build" / "singlehtml" / "print.html").read_text(encoding="utf-8")
    assert "F5 · The spectral lead" in page and "/runs/" not in page and "{.verdict" not in page


def test_pointing_at_a_figure_says_the_value(chromium, address):
    page = chromium.new_page()
    page.goto(f"{address}/book/F2.html")
    figure = page.locator("figure.drawn[data-points]").first
    points = json.loads(figure.get_attribute("data-points"))
    line, [(x, y, words), *_] = points[0]
    image = figure.locator("img")
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    edge = 9  # padding and border of the picture
    image.hover(
        position={"x": edge + x / 100 * (box["width"] - 2 * edge), "y": edge + y / 100 * (box["height"] - 2 * edge)}
    )
    assert figure.locator(".value").inner_text() == f"{line}: {words}"
    page.close()
