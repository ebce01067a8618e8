"""Small drawings: shapes, text, curves and bars, written as SVG of a few kilobytes."""

import struct
import zlib
from base64 import b64encode
from html import escape

import numpy as np

BLUE, RED, GREEN, GREY, INK, PALE = "#336699", "#b8323f", "#1a7429", "#666666", "#222222", "#dde6f0"
COLOURS = (BLUE, RED, GREEN, "#8a5f00", "#774499")


class Drawing:
    """A white card to draw on; y grows downwards."""

    def __init__(self, width, height):
        self.width, self.height, self.items = width, height, []

    def rect(self, x, y, width, height, fill="none", stroke="none", radius=0):
        """A rectangle, (x, y) its upper left corner."""
        self.items.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" '
            f'rx="{radius}" fill="{fill}" stroke="{stroke}"/>'
        )

    def circle(self, x, y, radius, fill="white", stroke=INK):
        """A circle around (x, y)."""
        self.items.append(
            f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius}" fill="{fill}" stroke="{stroke}"/>'
        )

    def path(self, points, colour=INK, width=1.5, dashed=False, arrow=False):
        """Lines from point to point."""
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        extra = (' stroke-dasharray="4 3"' if dashed else "") + (
            ' marker-end="url(#a)"' if arrow else ""
        )
        self.items.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" '
            f'stroke-width="{width}"{extra}/>'
        )

    def image(self, x, y, width, height, pixels):
        """A picture, an array (rows, columns, 3) of values from 0 to 1, as a PNG in the file."""
        data = b64encode(_png(np.asarray(pixels))).decode()
        self.items.append(
            f'<image x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" '
            'preserveAspectRatio="none" style="image-rendering:pixelated" '
            f'href="data:image/png;base64,{data}"/>'
        )

    def text(self, x, y, text, size=13, colour=INK, anchor="middle", bold=False):
        """A line of text, y its base line."""
        weight = ' font-weight="bold"' if bold else ""
        self.items.append(
            f'<text x="{x:.4g}" y="{y:.4g}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def node(self, x, y, text="", fill=PALE, radius=13):
        """A circle with a label in it."""
        self.circle(x, y, radius, fill)
        if text:
            self.text(x, y + 4.5, text)

    def box(self, x, y, width, lines, fill=PALE, size=13):
        """A rounded box with centred lines, (x, y) its upper left corner; returns its height."""
        height = 12 + 17 * len(lines)
        self.rect(x, y, width, height, fill, GREY, 5)
        for k, line in enumerate(lines):
            self.text(x + width / 2, y + 21 + 17 * k, line, size, bold=k == 0)
        return height

    def save(self, file):
        """Write the file."""
        body = "\n".join(self.items)
        file.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="sans-serif">\n'
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0,0L8,4L0,8z" fill="#222222"/></marker>'
            f'</defs>\n<rect width="100%" height="100%" rx="6" fill="white"/>\n{body}\n</svg>\n',
            encoding="utf-8",
        )


def _png(pixels):
    """The bytes of a file in PNG."""
    height, width, _ = pixels.shape
    values = np.round(255 * np.clip(pixels, 0.0, 1.0)).astype(np.uint8)
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), values.reshape(height, -1)])

    def chunk(name, content):
        check = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IEND", b"")


def blend(values, colour):
    """From white (0) to a colour (1): an array of pixels."""
    values = np.clip(np.asarray(values, dtype=float), 0.0, 1.0)[..., np.newaxis]
    ink = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255.0
    return 1.0 - values * (1.0 - ink)


def bars(title, names, values, texts, width=560, label=150):
    """Horizontal bars, one a name, from 0 to the largest value."""
    drawing = Drawing(width, 44 + 34 * len(names))
    drawing.text(16, 24, title, 14, anchor="start", bold=True)
    room = width - label - 90
    for k, (name, value, text) in enumerate(zip(names, values, texts, strict=True)):
        y = 40 + 34 * k
        drawing.text(label - 8, y + 16, name, anchor="end")
        drawing.rect(label, y, max(room * value / max(values), 1), 22, COLOURS[k % len(COLOURS)])
        drawing.text(label + room * value / max(values) + 8, y + 16, text, anchor="start")
    return drawing


class Plot(Drawing):
    """Axes with curves; scales are functions of the data."""

    def __init__(self, xs, ys, xlabel, ylabel, width=560, height=300, legend=150):
        super().__init__(width, height)
        self.left, self.bottom, self.right, self.top = 62, height - 46, width - legend, 18
        self.xs, self.ys, self.n = xs, ys, 0
        self.path(
            [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], GREY
        )
        self.text((self.left + self.right) / 2, height - 8, xlabel)
        self.items.append(
            f'<text transform="translate(16 {(self.top + self.bottom) / 2:.0f}) rotate(-90)" '
            f'font-size="13" text-anchor="middle" fill="{INK}">{escape(ylabel)}</text>'
        )

    def at(self, x, y):
        """Where a point of the data is drawn."""
        (x0, x1), (y0, y1) = self.xs, self.ys
        across = self.left + (self.right - self.left) * (x - x0) / (x1 - x0)
        return across, self.bottom - (self.bottom - self.top) * (y - y0) / (y1 - y0)

    def ticks(self, xs=(), ys=()):
        """Marks on the axes: pairs (value, text)."""
        for value, text in xs:
            x, _ = self.at(value, self.ys[0])
            self.path([(x, self.bottom), (x, self.bottom + 4)], GREY)
            self.text(x, self.bottom + 18, text, 11)
        for value, text in ys:
            _, y = self.at(self.xs[0], value)
            self.path([(self.left - 4, y), (self.left, y)], GREY)
            self.text(self.left - 8, y + 4, text, 11, anchor="end")

    def curve(self, x, y, name, dashed=False):
        """One more curve, with its entry in the legend."""
        colour = COLOURS[self.n]
        points = [self.at(a, b) for a, b in zip(x, y, strict=True)]
        self.path(points, colour, 2, dashed)
        self.path(
            [(self.right + 10, 30 + 20 * self.n), (self.right + 30, 30 + 20 * self.n)],
            colour,
            2,
            dashed,
        )
        self.text(self.right + 36, 34 + 20 * self.n, name, 12, anchor="start")
        self.n += 1
