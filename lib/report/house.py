"""The generated part of the page "How it is built": the rooms drawn, and what each is for."""

from html import escape

import yaml

from lib.files import ROOT
from lib.formatting import join
from lib.report import structure

WIDTH, FLOOR, BOX, TALL = 640, 92, 118, 46  # of the picture, from floor to floor, of a box: in pixels


def page(report):
    """The rooms as a drawn figure, with links, and a list of the rooms; report is not asked."""
    rooms, arrows = structure.rooms(), structure.arrows()
    return f"{_figure(rooms, arrows)}\n\n{_list(rooms)}"


def _figure(rooms, arrows):
    weights = structure.weights(arrows)
    n_files = sum(weights.values())
    said = [
        f"{room} imports {join(f'{b} ({n})' for (a, b), n in sorted(weights.items()) if a == room)}"
        for room in reversed(rooms)
        if any(a == room for a, _ in weights)
    ]
    alt = f"{len(rooms)} rooms as boxes and {len(weights)} arrows, {n_files} imports of one file by another in all. {'; '.join(said)}."
    caption = (
        f"The rooms of lib/, drawn from its imports when this page was built: {n_files} arrows from a file of one room to a file of "
        "another, none of them upwards. The number on a line says how many; a box leads to what is said of the room below."
    )
    return (
        "```{raw} html\n"
        f'<figure class="house"><div class="canvas" tabindex="0" role="group" aria-label="Figure">{_svg(rooms, weights, alt)}</div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>\n```"
    )


def _svg(rooms, weights, alt):
    """The picture: a floor a row, arrows behind the boxes, each box a link."""
    at = _places(rooms)
    height = max(y for _, y in at.values()) + TALL + 12
    lines, numbers, boxes = [], [], []
    for (source, target), n in sorted(weights.items()):
        (x0, y0), (x1, y1) = at[source], at[target]
        y0 += TALL
        bend = (y1 - y0) / 2
        lines.append(
            f'<path d="M{x0:.0f} {y0:.0f} C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1 - 2:.0f}" '
            f'stroke-width="{1 + n / 4:.2f}" marker-end="url(#tip)"/>'
        )
        share = 0.32  # of the way down the curve: near the room that imports
        along = [3 * share * (1 - share) ** 2, 3 * share**2 * (1 - share), share**3, (1 - share) ** 3]
        x = x0 * (along[3] + along[0]) + x1 * (along[1] + along[2])
        y = y0 * along[3] + (y0 + bend) * along[0] + (y1 - bend) * along[1] + y1 * along[2]
        numbers.append(f'<text class="number" x="{x:.0f}" y="{y + 4:.0f}">{n}</text>')
    for name, room in rooms.items():
        x, y = at[name]
        size = f"{len(room.files)} files, {sum(room.files.values()):,} lines"
        boxes.append(
            f'<a href="#room-{name}"><rect x="{x - BOX / 2:.0f}" y="{y:.0f}" width="{BOX}" height="{TALL}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 20:.0f}">{name}</text><text class="size" x="{x:.0f}" y="{y + 36:.0f}">{size}</text></a>'
        )
    tip = '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z"/></marker>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="group" aria-label="{escape(alt)}"><defs>{tip}</defs>'
        f'<g class="arrows">{"".join(lines)}</g>{"".join(boxes)}<g>{"".join(numbers)}</g></svg>'
    )


def _places(rooms):
    """{name: (x of the middle, y of the top)}; rooms that have a floor to themselves stand left and right in turn."""
    level = structure.floors(rooms)
    highest, at, alone = max(level.values()), {}, 0
    for floor in range(highest, -1, -1):
        here = [name for name in rooms if level[name] == floor]
        shares = [(i + 0.5) / len(here) for i in range(len(here))]
        if len(here) == 1 and floor not in (0, highest):
            shares = [(0.3, 0.66)[alone % 2]]
            alone += 1
        at |= {name: (WIDTH * share, FLOOR * (highest - floor) + 6) for name, share in zip(here, shares)}
    return at


def _list(rooms):
    """What each room is for, by the docstring of its face, with its files."""
    repository = (yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8")).get("repository") or {}).get("url")
    parts = []
    for name, room in rooms.items():
        folder = f"`lib/{name}/`"
        if repository:
            folder = f"[{folder}]({repository.rstrip('/')}/tree/HEAD/lib/{name})"
        files = join(f"`{file}`" for file in room.files if file != "__init__.py")
        parts.append(f"(room-{name})=\n### {name}\n\n{folder}: {files}.\n\n{room.text}")
    return "\n\n".join(parts)
