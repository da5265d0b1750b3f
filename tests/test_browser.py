"""The built report in a real browser, offline: no request leaves the site, pages are light, axe finds nothing serious.

The browser is the system's Chromium.  Without one these tests are skipped, or fail where
REQUIRE_BROWSER is set, as in .ci/run.
"""

import gzip
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

NAMES = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)
REQUIRED = bool(os.environ.get("REQUIRE_BROWSER"))
pytestmark = pytest.mark.skipif(
    BROWSER is None and not REQUIRED,
    reason=f"no browser: none of {', '.join(NAMES)} is installed (on Debian: apt-get install chromium)",
)

RUN = "runs/F2/tiny-olmo/step10.html"
KINDS = {
    "first page": "book/index.html",
    "methods": "book/methods.html",
    "models": "book/models.html",
    "finding": "book/F1.html",
    "finding over all models": "book/F5.html",
    "run": RUN,
    "ledger": "book/ledger.html",
    "causal": "book/causal.html",
    "crosschecks": "book/crosschecks.html",
    "status": "book/status.html",
    "reproduce": "book/reproduce.html",
    "glossary": "book/glossary.html",
    "references": "book/references.html",
    "search": "search.html?q=induction",
}
WITH_MATHEMATICS = ("methods", "causal")
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
        pytest.fail(f"REQUIRE_BROWSER is set and none of {', '.join(NAMES)} is installed")
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


@contextmanager
def opened(chromium, url, **context):
    """A page, loaded; page.away: requests to elsewhere (cut off), page.errors: what the console and scripts complain of.

    page.loaded: the requests that were answered.
    """
    with chromium.new_context(**context) as session:
        page = session.new_page()
        page.away, page.errors, page.loaded = [], [], []
        here = urlsplit(url)[:2]

        def check(route):
            if urlsplit(route.request.url)[:2] == here:
                return route.continue_()
            page.away.append(route.request.url)
            return route.abort()

        page.route("**/*", check)
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda said: page.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("requestfinished", lambda request: page.loaded.append(request))
        page.on("requestfailed", lambda request: page.errors.append(f"{request.url}: {request.failure}"))
        page.goto(url, wait_until="load")
        settle(page)
        yield page


def settle(page):
    """Wait for what scripts do after loading: mathematics, search results."""
    page.wait_for_load_state("networkidle")
    page.evaluate("() => window.MathJax && MathJax.startup && MathJax.startup.promise.then(() => null)")


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_needs_nothing_from_elsewhere_and_has_no_errors(chromium, address, kind):
    with opened(chromium, address + KINDS[kind]) as page:
        assert page.away == [] and page.errors == []
        assert page.locator("main h1:visible").count() == 1


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "search"])
def test_a_page_works_when_opened_from_the_disk(chromium, site, kind):
    with opened(chromium, (site / KINDS[kind]).as_uri()) as page:
        assert page.away == [] and page.errors == []


def test_mathematics_is_set_and_only_pages_that_have_it_load_the_library(chromium, address):
    for kind, path in KINDS.items():
        with opened(chromium, address + path) as page:
            formulas, loaded = page.locator(".math").count(), any("mathjax" in request.url for request in page.loaded)
            assert (formulas > 0) == loaded == (kind in WITH_MATHEMATICS), kind
            assert page.locator("mjx-container").count() == formulas, kind


def test_search_finds(chromium, address):
    with opened(chromium, address + KINDS["search"]) as page:
        page.wait_for_selector("#search-results li")
        links = page.locator("#search-results li a").evaluate_all("links => links.map(a => a.getAttribute('href'))")
        assert any("glossary" in link for link in links)
    with opened(chromium, address + KINDS["search"].replace("induction", "zzzzz")) as page:
        page.wait_for_selector("#search-results :text('did not match')")


def weight(chromium, url):
    """Bytes that a first visit to a page takes: (as sent, that is compressed, as they lie on the disk)."""
    with opened(chromium, url) as page:
        sizes = [request.sizes()["responseBodySize"] for request in page.loaded]
        return sum(sizes), sum(len(request.response().body()) for request in page.loaded)


def test_pages_are_light(chromium, address):
    """What is counted: all that the browser loads on a first visit, nothing being cached.

    A web host sends it compressed, and so it is counted; the first page is under its
    limit without that as well.
    """
    sent, whole = weight(chromium, address + KINDS["first page"])
    assert sent <= whole < 1_000_000
    sent, _ = weight(chromium, address + RUN)
    assert sent < 600_000


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing_serious(chromium, address, kind, scheme, width):
    screen = {"viewport": {"width": WIDTHS[width], "height": 900}, "color_scheme": scheme}
    with opened(chromium, address + KINDS[kind], **screen) as page:
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        found = Axe().run(page).response["violations"]
        serious = {
            violation["id"]: [node["html"][:200] for node in violation["nodes"][:3]]
            for violation in found
            if violation["impact"] in ("serious", "critical") or violation["id"] == "heading-order"
        }
        assert serious == {}
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, "the page itself scrolls sideways"
