"""Lighten a built report: the theme brings a font and styles for 2,000 icons, of which the report shows a dozen."""

import re
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset

STYLES = "styles/pydata-sphinx-theme.css"
FONTS = "vendor/fontawesome/webfonts"
ICON = re.compile(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\([0-9a-f]+)"\}')  # a rule of Font Awesome


def keep_used_icons(html):
    """Leave in the styles and the icon font of a built book only the icons that its pages show.

    html: Path of the built pages.  The theme's own files are what is cut, so that it
    can be done again.  Raises ValueError if they are not of the form that is known.
    """
    theme = Path(find_spec("pydata_sphinx_theme").origin).parent / "theme" / "pydata_sphinx_theme" / "static"
    used = set().union(*(re.findall(r"\bfa-[\w-]+", page.read_text("utf-8")) for page in html.rglob("*.html")))
    kept = set()

    def cut(rule):
        if used.isdisjoint(re.findall(r"fa-[\w-]+", rule[1])):
            return ""
        kept.add(int(rule[2], 16))
        return rule[0]

    styles, found = ICON.subn(cut, (theme / STYLES).read_text("utf-8"))
    if found < 1000:
        raise ValueError(f"lib.report.icons does not find the icons in the theme's {STYLES}: it has changed")
    (html / "_static" / STYLES).write_text(styles, "utf-8")
    for name in ("fa-solid-900.woff2", "fa-regular-400.woff2", "fa-brands-400.woff2"):
        options = subset.Options(flavor="woff2")
        font = subset.load_font(theme / FONTS / name, options)
        subsetter = subset.Subsetter(options)
        subsetter.populate(unicodes=kept)
        subsetter.subset(font)
        subset.save_font(font, html / "_static" / FONTS / name, options)
