"""Panels: which models at which revisions, on which batch, with which thresholds (panels/*.yml)."""

import os
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from lib.files import ROOT, UserError, nearest


class PanelError(UserError, ValueError):
    """A panel file that cannot be used; the message says where and what was expected."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Revision(_Strict):
    """One checkpoint: its name on the hub or on disk, and the tokens the model had seen."""

    name: str = Field(min_length=1)
    tokens: int = Field(ge=0)


class Batch(_Strict):
    """Parameters of lib.measure.batch.induction_batch."""

    n_sequences: int = Field(ge=1)
    seq_len: int = Field(ge=57)  # 50 baseline positions beside the seven fixed targets
    vocab_low: int = Field(ge=0)
    vocab_high: int = Field(ge=3)
    seed: int = Field(ge=0)


class Thresholds(_Strict):
    """The paper's thresholds, in times the baseline unless said otherwise."""

    classify: float = Field(default=30.0, gt=0)  # a head has a class, is a BOS head, from here
    induction_circuit: float = Field(default=50.0, gt=0)
    previous_token_circuit: float = Field(default=100.0, gt=0)
    mass_floor: float = Field(default=0.05, ge=0, le=1)  # attention mass below which a ratio is suspect
    pr_elevation: float = Field(default=2.0, gt=1)  # times the median PR at the first revision


class Model(_Strict):
    """A model and its revisions.  hub: a repository id; path: a folder with one subfolder a revision."""

    hub: str | None = None
    path: str | None = None
    label: str = Field(min_length=1)
    counterpart: str | None = None  # the paper's model whose claims it is held against
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"  # of the weights in memory
    revisions: list[Revision] = Field(min_length=2)

    @model_validator(mode="after")
    def _check(self):
        if (self.hub is None) == (self.path is None):
            raise ValueError("expected exactly one of 'hub' (a repository id) and 'path' (a folder)")
        names = [r.name for r in self.revisions]
        for i, r in enumerate(self.revisions):
            if r.name in names[:i]:
                raise ValueError(f"revisions[{i}]: duplicate revision {r.name!r}; expected each name once")
            if i and r.tokens <= self.revisions[i - 1].tokens:
                raise ValueError(
                    f"revisions[{i}]: {r.name!r} has {r.tokens} tokens after {self.revisions[i - 1].tokens}; "
                    "expected revisions in ascending order of tokens"
                )
        return self

    def revision(self, name):
        """The revision of that name; raises PanelError with the nearest names."""
        return _lookup({r.name: r for r in self.revisions}, name, f"revision of {self.label}")

    def folder(self, revision_name):
        """Folder of a local checkpoint, None for a hub model; relative paths start at the project's root."""
        return None if self.path is None else ROOT / self.path / revision_name

    def upto(self, name):
        """Revisions from the first to the named one, in order of training."""
        return self.revisions[: self.revisions.index(self.revision(name)) + 1]


class Panel(_Strict):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    title: str
    batch: Batch
    thresholds: Thresholds = Thresholds()
    device: Literal["auto", "cuda", "mps", "cpu"] = "auto"  # where models are measured; lib.panels.checkpoints.device
    models: dict[str, Model] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self):
        if self.batch.vocab_high - self.batch.vocab_low < 3:
            raise ValueError("batch: expected vocab_high at least 3 above vocab_low")
        if self.batch.vocab_high - self.batch.vocab_low < self.batch.seq_len // 2:
            raise ValueError(
                f"batch: expected vocab_high at least {self.batch.seq_len // 2} above vocab_low, half of seq_len: "
                "the sequences of the prefix-matching score hold no token twice in a half"
            )
        return self

    def model(self, name):
        """The model of that name; raises PanelError with the nearest names."""
        return _lookup(self.models, name, f"model in panel {self.name!r}")


def panel_path(panel):
    """The file of a panel given by name (panels/<name>.yml) or by path; CIRCUITS_PANELS names another folder."""
    path = Path(panel)
    return path if path.suffix in {".yml", ".yaml"} else _folder() / f"{panel}.yml"


def _folder():
    return Path(os.environ.get("CIRCUITS_PANELS", ROOT / "panels"))


def load_panel(panel):
    """Read and validate a panel, by name ("mini") or by path to a .yml file.

    Raises PanelError naming the file, the place in it and what was expected.
    """
    path = panel_path(panel)
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    if not path.is_file():
        known = sorted(p.stem for p in _folder().glob("*.yml"))
        raise PanelError(f"no panel {str(panel)!r}: {shown} does not exist. {nearest(str(panel), known)}")
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise PanelError(f"{shown}: not valid YAML: {error}") from None
    try:
        return Panel.model_validate(content)
    except ValidationError as error:
        raise PanelError("\n".join(f"{shown}: {_explain(e)}" for e in error.errors())) from None


def _lookup(known, name, what):
    if name not in known:
        raise PanelError(f"no {what} is called {name!r}. {nearest(name, known)}")
    return known[name]


def _explain(error):
    """One pydantic error as "place: what is wrong; what was expected"."""
    place = ""
    for part in error["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    given = error["input"]
    if error["type"] == "extra_forbidden":
        known = _fields_at(error["loc"][:-1])
        return f"{place}: unknown key; expected one of {', '.join(known)}"
    if error["type"] == "missing":
        return f"{place}: missing; expected a value for this key"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{place}: {message}" if place else message
    return f"{place or 'file'}: {message[0].lower() + message[1:]}; found {given!r}"


def _fields_at(loc):
    """The keys allowed at a place in a panel file."""
    if not loc:
        return Panel.model_fields
    if loc[0] == "models":
        return Revision.model_fields if len(loc) > 2 else Model.model_fields
    return {"batch": Batch, "thresholds": Thresholds}[loc[0]].model_fields


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML lets a repeated key silently win over the first; here it is an error."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key!r}; expected each key once", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)
