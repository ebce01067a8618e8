"""Math as MathML, made by docutils: browsers draw it without a script, a font or a network."""

import html
import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def _convert(node, block):
    # docutils reads \frac12 as "twelve over what follows"
    code = re.sub(r"\\([dt]?frac)(\d)(\d)", r"\\\1{\2}{\3}", node.astext())
    # and sets the square of \|w\|^2 at the closing bars alone, which then hang below the line
    code = re.sub(r"(?<!left)\\\|(.+?)(?<!right)\\\|", r"\\left\\|\1\\right\\|", code)
    try:
        return tex2mathml(code, as_block=block)
    except MathError as error:
        logger.warning("formula %r: %s", code, error, location=node)
        return f"<code>{html.escape(node.astext())}</code>"


def _inline(self, node):
    self.body.append(_convert(node, block=False))
    raise nodes.SkipNode


def _block(self, node):
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(_convert(node, block=True))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer, for ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
