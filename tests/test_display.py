"""Where the points of a figure are, for the pointer: against the markers in the SVG itself."""

import json
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from matplotlib.ticker import PercentFormatter

from lib import figures
from lib.figures.display import drawn
from lib.figures.style import label_ends, training_axis
from lib.files import ROOT

TOKENS = np.array([0, 1000, 20_000, 5_000_000])
SHARES = [0.0, 0.125, 0.5, 0.9]


@pytest.fixture(scope="module")
def figure():
    """Two plots of shares over training; the first line has a label, the second is labelled at its end."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    for ax, title in ((left, "here"), (right, "there")):
        x = training_axis(ax, TOKENS)
        ax.plot(x, SHARES, "-o", label="induction" if ax is left else None)
        ax.axhline(0.5)
        ax.set_title(title)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    label_ends(right, [(x[-1], SHARES[-1], "sinks", "black")])
    return drawn(fig, "two", "alt", "caption", pd.DataFrame({"share": SHARES}))


def test_points_lie_where_the_markers_are_drawn(figure):
    width, height = (float(v) for v in re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', figure.svg).groups())
    groups = re.findall(r'<g clip-path="[^"]*">\s*((?:<use [^>]*>\s*)+)</g>', figure.svg)
    markers = [
        [(100 * float(x) / width, 100 * float(y) / height) for x, y in re.findall(r'x="([\d.]+)" y="([\d.]+)"', group)]
        for group in groups
    ]
    assert [len(group) for group in markers] == [4, 4] == [len(points) for _, points in figure.points]
    for group, (_, points) in zip(markers, figure.points):
        np.testing.assert_allclose([point[:2] for point in points], group, atol=0.5)


def test_points_are_named_by_their_lines_and_say_their_values(figure):
    assert [line for line, _ in figure.points] == ["induction (here)", "sinks (there)"]  # and not the straight lines
    for _, points in figure.points:
        assert [words for *_, words in points] == [
            "0 % at 0 tokens",
            "12.5 % at 1k tokens",
            "50 % at 20k tokens",
            "90 % at 5M tokens",
        ]


def test_the_page_holds_the_points_as_they_are(figure):
    element = BeautifulSoup(figure._repr_html_(), "html.parser").find("figure")
    assert json.loads(element["data-points"]) == figure.points


def test_a_figure_without_lines_has_none():
    fig, ax = plt.subplots()
    ax.bar([1, 2], [3, 4], label="bars")
    found = drawn(fig, "bars", "alt", "caption", pd.DataFrame())
    assert found.points == [] and "data-points" not in found._repr_html_()


def test_every_text_of_a_figure_is_said_and_every_one_said_is_there():
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lib" / "figures").glob("of_*.py"))
    said = set(re.findall(r'(?:words|say)\(\s*"(\w+)"', code)) | set(re.findall(r'texts\(\)\["(\w+)"\]', code))
    assert said == set(figures.display.texts())


def test_what_a_figure_says_of_its_models_is_joined(monkeypatch):
    kind = {"alt": "{each}.", "each": "{label} {share:percent}", "none": "nothing", "caption": "At {tokens:tokens}."}
    monkeypatch.setattr(figures.display, "texts", lambda: {"kind": kind})
    models = [{"label": "A", "share": 0.5}, {"label": "B", "share": 1}]
    assert figures.display.words("kind", models, tokens=2e6) == ("A 50 %; B 100 %.", "At 2M tokens.")
    assert figures.display.words("kind", [], tokens=0) == ("nothing.", "At 0 tokens.")
    with pytest.raises(KeyError, match="tokens"):
        figures.display.words("kind", models)
