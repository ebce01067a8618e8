"""Draw the rooms of the package: ``python doc/development/draw.py`` writes house.svg beside it.

Arrows are read from the sources. An import that others imply has none: ``graphs -> inference``
follows from ``graphs -> spaces -> targets -> losses -> inference``. The page includes the file as
it is, so that the theme's colours hold in light and in dark.
"""

import re
from pathlib import Path

import skstruct

FILE = Path(__file__).with_name("house.svg")
STEP, HEIGHT = 84, 54
# Level, left and right side, and a line on each room. All arrows point straight down.
ROOMS = {
    "estimators": (0, 10, 710, "fit, predict, score, parameters: what users call"),
    "graphs": (1, 10, 350, "structures: they read X and y, and make a problem"),
    "distributed": (1, 390, 710, "training on shards, checkpoints"),
    "spaces": (2, 10, 350, "which labellings exist, and their oracles"),
    "solvers": (2, 390, 710, "the loop, one method per algorithm, bounds"),
    "rows": (3, 10, 110, "features"),
    "targets": (3, 140, 350, "true labels, costs of errors"),
    "scores": (3, 610, 710, "score maps"),
    "losses": (4, 140, 430, "losses of training, task losses"),
    "map_inference": (4, 450, 600, "factor graphs"),
    "data": (5, 140, 300, "reads users' X and y"),
    "inference": (5, 320, 600, "algorithms on plain arrays"),
    "core": (6, 10, 710, "operations, weights, threads; core/jit: all that knows numba"),
}


def imports():
    """Rooms that the files of each room import."""
    found = {room: set() for room in ROOMS}
    package = Path(skstruct.__file__).parent
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        room = parts[0].removesuffix(".py")
        if room in ROOMS:
            above = re.findall(r"^ *from (\.+)(\w+)", path.read_text(encoding="utf-8"), re.M)
            found[room] |= {name for dots, name in above if len(dots) == len(parts)} & ROOMS.keys()
    return found


def arrows(found):
    """Pairs of rooms whose import no path over a third room implies."""

    def reach(room):
        return found[room].union(*map(reach, found[room]))

    for room, others in found.items():
        for other in others:
            if not any(other in reach(third) for third in others - {other}):
                yield room, other


def picture():
    """The drawing, as text."""
    ink, paper = "var(--pst-color-text-base, #222832)", "var(--pst-color-surface, #f3f4f5)"
    faint, line = "var(--pst-color-text-muted, #48566b)", "var(--pst-color-primary, #0a7d91)"
    width, height = 720, 6 * STEP + HEIGHT + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="Rooms of the package and their imports" font-family="sans-serif" '
        f'font-size="13" text-anchor="middle" style="min-width: 640px; max-width: {width}px">',
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0L8,4L0,8z" style="fill: {line}"/></marker>'
        "</defs>",
    ]
    for room, other in sorted(arrows(imports())):
        (above, *ours, _), (below, *theirs, _) = ROOMS[room], ROOMS[other]
        x = (max(ours[0], theirs[0]) + min(ours[1], theirs[1])) / 2
        top, bottom = 10 + above * STEP + HEIGHT, 10 + below * STEP
        parts.append(
            f'<path d="M{x:g},{top}V{bottom}" marker-end="url(#tip)" style="stroke: {line}; '
            f'stroke-width: 1.5"><title>{room} imports {other}</title></path>'
        )
    for room, (level, left, right, text) in ROOMS.items():
        y, x = 10 + level * STEP, (left + right) / 2
        parts += [
            f'<rect x="{left}" y="{y}" width="{right - left}" height="{HEIGHT}" rx="6" '
            f'style="fill: {paper}; stroke: {faint}"/>',
            f'<text x="{x:g}" y="{y + 23}" font-weight="bold" style="fill: {ink}">{room}</text>',
            f'<text x="{x:g}" y="{y + 42}" style="fill: {ink}">{text}</text>',
        ]
    return "\n".join([*parts, "</svg>\n"])


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8")
