"""All generated parts of the pages, by the names under which book/*.md include them."""

from lib.report import (
    circuit_pages,
    colophon,
    explorer,
    finding_pages,
    first_page,
    house,
    model_pages,
    status,
    study_pages,
)
from lib.report.jobs import notebooks

PAGES = {
    "overview": first_page.overview,
    "panel": first_page.panel,
    "cards": first_page.cards,
    "glance": first_page.glance,
    "batch": model_pages.batch,
    "ceiling": model_pages.ceiling,
    "traits": model_pages.traits,
    "corpora": model_pages.corpora,
    "training": model_pages.training,
    "formed": circuit_pages.formed,
    "matters": circuit_pages.matters,
    "checks": circuit_pages.checks,
    "power": study_pages.power,
    "explorer": explorer.page,
    "heads": explorer.heads_page,
    "ledger": lambda report: finding_pages.ledger(report.ledger),
    "status": status.status,
    "lines": status.lines,
    "rooms": house.page,
    "made": lambda report: colophon.made(),
}


def parts(report):
    """{name: Markdown}; of each finding, known or new, the parts <finding>_claim, _evidence, ..., _runs."""
    found = {name: page(report) for name, page in PAGES.items()}
    for id in notebooks():
        found |= finding_pages.parts(report, id) | {f"{id}_runs": status.runs_of_finding(report, id)}
    return found
