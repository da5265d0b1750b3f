"""The ledger: what the paper states (claims.yml), held against what its published counts give.

An entry of claims.yml names a check, a function of lib/paper/checks_*.py, that recomputes the number and decides; its
sentences are filled with the facts that the check returns.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pandas as pd
import yaml
from jinja2 import Environment, StrictUndefined

from lib.files import UserError, nearest
from lib.formatting import join
from lib.paper import checks_bos, checks_induction, checks_pr, checks_text  # noqa: F401 - they register their checks
from lib.paper.comparing import AGREES, CHECKS, DISAGREES, UNCHECKED

CLAIMS_FILE = Path(__file__).with_name("claims.yml")
VERDICTS = {AGREES: "holds", DISAGREES: "fails", UNCHECKED: "undetermined"}  # the verdict on a finding that it is like
SECTIONS = {"F1": "F1", "F2": "F2", "F3": "F3", "F4": "F4", "F5": "F5", "T": "tables", "X": "text"}


@dataclass(frozen=True)
class Claim:
    """A checkable statement of the paper.

    id: "F2.3".  finding: one of SECTIONS' values.  text: the statement, paraphrased.  where: its place in the paper.
    function, given: the check and its arguments.  value, why: templates of what is recomputed and of the reason.
    """

    id: str
    finding: str
    text: str
    where: str
    function: object
    given: dict = field(repr=False)
    value: str = field(repr=False)
    why: str = field(repr=False)
    more: str = field(repr=False)

    def check(self, published):
        """(recomputed value in words, verdict, why), from the published tables."""
        decided, facts = self.function(published, **self.given)
        fill = lambda text: _templates().from_string(text).render(more=self.more, **facts)
        return fill(self.value), decided, fill(self.why)


@cache
def _templates():
    templates = Environment(undefined=StrictUndefined, autoescape=False)
    templates.filters["words"] = join
    return templates


def claims(file=CLAIMS_FILE):
    """Every Claim of a file of claims, in its order.

    Raises UserError naming file and entry if an entry's number is out of order, its section or check unknown, or a key
    is missing.
    """
    content = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    found, numbers = [], dict.fromkeys(SECTIONS, 0)
    for entry in content["claims"]:
        where = f"{Path(file).name}: {entry.get('id', 'an entry without id')}"
        missing = [key for key in ("id", "text", "where", "check") if key not in entry]
        if missing:
            raise UserError(f"{where}: missing {join(missing)}")
        section, _, number = str(entry["id"]).partition(".")
        if section not in SECTIONS:
            raise UserError(f"{where}: no section {section!r}; expected one of {', '.join(SECTIONS)}")
        numbers[section] += 1
        if number != str(numbers[section]):
            raise UserError(f"{where}: expected {section}.{numbers[section]}, the next number of its section")
        if entry["check"] not in CHECKS:
            raise UserError(f"{where}: no check is called {entry['check']!r}. {nearest(entry['check'], CHECKS)}")
        said = content["sentences"][entry["check"]]
        found.append(
            Claim(
                entry["id"], SECTIONS[section], entry["text"], entry["where"], CHECKS[entry["check"]],
                entry.get("with", {}), said["value"], entry.get("why", said["why"]), entry.get("more", ""),
            )
        )  # fmt: skip
    return found


def entries(published):
    """Every claim checked: columns id, finding, claim, where, value (recomputed, in words), verdict, why; one row a claim."""
    rows = [(c.id, c.finding, c.text, c.where, *c.check(published)) for c in claims()]
    return pd.DataFrame(rows, columns=["id", "finding", "claim", "where", "value", "verdict", "why"])
