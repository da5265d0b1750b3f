"""Which generated part of a page is written by which function: lib.report.book puts them into book/_generated.

A page in book/ includes them by name: {include} _generated/<name>.md, or _generated/<finding>_<name>.md.
"""

from lib.report import (
    check_pages,
    colophon,
    explorer,
    finding_pages,
    first_page,
    house,
    model_pages,
    status_page,
)

PAGES = {
    "overview": first_page.overview,
    "cards": first_page.cards,
    "panel": first_page.panel,
    "glance": first_page.glance,
    "batch": model_pages.batch,
    "ceiling": model_pages.ceiling,
    "traits": model_pages.traits,
    "corpora": model_pages.corpora,
    "training": model_pages.training,
    "formed": model_pages.formed,
    "matters": check_pages.matters,
    "checks": check_pages.checks,
    "controls": finding_pages.controls,
    "ledger": lambda report: check_pages.ledger(report.ledger),
    "status": status_page.status,
    "lines": status_page.lines,
    "explorer": explorer.page,
    "heads": explorer.heads_page,
    "rooms": house.page,
    "made": lambda report: colophon.made(),
}
FINDING_PAGES = {
    "claim": finding_pages.claim,
    "evidence": finding_pages.evidence,
    "published": finding_pages.published,
    "panel": finding_pages.panel,
    "assumptions": finding_pages.assumptions_of,
    "runs": finding_pages.runs,
}
