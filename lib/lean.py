"""Lighten a built report: the theme's icon script holds 2,000 icons, the report uses a dozen."""

import re
from importlib.util import find_spec
from pathlib import Path

ICONS = Path("_static", "scripts", "fontawesome.js")
# "name":[width,height,[aliases],"code point","path" or ["path","path"]], as in Font Awesome's own script
ICON = re.compile(r'"?([\w-]+)"?:\[\d+,\d+,\[[^\]]*\],"[^"]*",(?:"[^"]*"|\["[^"]*","[^"]*"\])\],?')


def used_icons(html):
    """Names of the icons on the pages below a folder: {"chevron-down", ...}, with class names that are no icons."""
    return {name for page in html.rglob("*.html") for name in re.findall(r"\bfa-([a-z0-9-]+)", page.read_text("utf-8"))}


def keep_used_icons(html):
    """Leave in the icon script of a built book only the icons that its pages use.

    html: Path of the built pages.  The theme's own file is what is cut, so that it can
    be done again.  Raises ValueError if the script is not of the form that is known.
    """
    theme = Path(find_spec("pydata_sphinx_theme").origin).parent / "theme" / "pydata_sphinx_theme" / "static"
    script, used = (theme / ICONS.relative_to("_static")).read_text("utf-8"), used_icons(html)
    if len(ICON.findall(script)) < 1000:
        raise ValueError("the theme's icon script has changed: lib.lean does not find the icons in it")
    (html / ICONS).write_text(ICON.sub(lambda icon: icon[0] if icon[1] in used else "", script), "utf-8")
