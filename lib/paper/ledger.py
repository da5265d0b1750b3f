"""The ledger: what the paper states, held against what its published counts give.

Each claim stands once in claims.yml: the statement in our words, its place in the paper, and the name of the check that
recomputes it from the published tables (claims_*.py).  No verdict is written down.  A number agrees if the recomputed one
lies within half a unit of the last digit that the paper prints; where the paper says "about", within 10 %.  "Cannot be
checked" is for what the tables cannot decide; it comes with the reason.

The statements are facts about arXiv:2606.02378, by section, table and figure of its LaTeX source (repository
skydancerosel/spectral-probe-circuits, papers/paper2_developmental).
"""

import inspect
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import jinja2
import pandas as pd
import yaml

from lib import formatting
from lib.files import UserError, nearest
from lib.paper import claims_bos, claims_induction, claims_pr, claims_text
from lib.paper.comparing import billions
from lib.paper.published import SHORT

CLAIMS = Path(__file__).with_name("claims.yml")
AGREES, DISAGREES, UNCHECKED = "agrees", "disagrees", "cannot be checked"
VERDICTS = {AGREES: "holds", DISAGREES: "fails", UNCHECKED: "undetermined"}  # the verdict on a finding that it is like
CHECKS = {  # every public function of these modules: (published, **parameters of the claim) -> (agrees, found)
    name: function
    for module in (claims_bos, claims_induction, claims_pr, claims_text)
    for name, function in vars(module).items()
    if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
}
SECTIONS = ("F1", "F2", "F3", "F4", "F5", "tables", "text")


class ClaimError(UserError, ValueError):
    """A claim that cannot be used; the message says file, claim, and what was found and expected."""


@dataclass(frozen=True)
class Claim:
    """A checkable statement of the paper, as in claims.yml; parameters are those of its check."""

    id: str
    finding: str
    text: str
    where: str
    check: str
    value: str
    why: str
    note: str
    parameters: dict


@lru_cache(maxsize=8)
def claims(path=CLAIMS):
    """The claims of a file, in order.

    Raises ClaimError for a file that is no YAML, and for a claim with a key missing or of no use, a section or a check
    that does not exist, or the id of another.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ClaimError(f"{path.name}: not valid YAML: {error}") from None
    found = {}
    for row in content["claims"]:
        claim = _claim(path.name, content["wording"].get(row.get("check"), {}) | row)
        if claim.id in found:
            raise ClaimError(f"{path.name}, {claim.id}: two claims have this id; expected another")
        found[claim.id] = claim
    return list(found.values())


def _claim(file, row):
    """One claim from its row, which already has the wording of its check."""
    place = f"{file}, {row.get('id', 'a claim without id')}"
    named = {key: row.pop(key, "" if key == "note" else None) for key in Claim.__annotations__ if key != "parameters"}
    for key, value in named.items():
        if not isinstance(value, str):
            raise ClaimError(f"{place}: {key} is {'missing' if value is None else repr(value)}; expected a text")
    for key, known in (("finding", SECTIONS), ("check", CHECKS)):
        if named[key] not in known:
            raise ClaimError(f"{place}: no {key} is called {named[key]!r}. {nearest(named[key], known)}")
    try:
        inspect.signature(CHECKS[named["check"]]).bind(None, **row)
    except TypeError as error:
        raise ClaimError(f"{place}: the check {named['check']} does not take these parameters: {error}") from None
    return Claim(**named, parameters=row)


# Judging and saying


@jinja2.pass_environment
def _each(environment, values, say="string", caller=None):
    """{model: value} -> "Pythia ...; OLMo ...", each value said by a filter or by the body of a call block."""
    say = caller or environment.filters[say]
    return "; ".join(f"{SHORT[model]} {str(say(value)).strip()}" for model, value in values.items())


def _training_share(share):
    """0.0209 -> "2.1 %"; None -> "never"."""
    return "never" if share is None else f"{100 * share:.2g} %"


ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined)
ENVIRONMENT.globals["each"] = _each
ENVIRONMENT.filters |= {
    "each": _each,
    "billions": billions,
    "listing": lambda items: formatting.join(map(str, items)),
    "percent": formatting.percent,
    "plural": formatting.plural,
    "points": lambda fraction: f"{100 * fraction:.1f} points",
    "short": SHORT.get,
    "times": formatting.times,
    "training_share": _training_share,
}
_template = lru_cache(maxsize=None)(ENVIRONMENT.from_string)


def judge(claim, published):
    """Check a claim: (recomputed value in words, verdict, why)."""
    agrees, found = CHECKS[claim.check](published, **claim.parameters)
    context = claim.parameters | {"note": claim.note, "agrees": agrees} | found
    try:
        value, why = (" ".join(_template(text).render(context).split()) for text in (claim.value, claim.why))
    except jinja2.TemplateError as error:
        raise ClaimError(f"{CLAIMS.name}, {claim.id}: value or why cannot be said: {error}") from None
    return value, UNCHECKED if agrees is None else AGREES if agrees else DISAGREES, why


def entries(published):
    """Every claim checked: columns id, finding, claim, where, value (recomputed, in words), verdict, why; one row a claim."""
    rows = [(c.id, c.finding, c.text, c.where, *judge(c, published)) for c in claims()]
    return pd.DataFrame(rows, columns=["id", "finding", "claim", "where", "value", "verdict", "why"])
