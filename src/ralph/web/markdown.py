"""Render Markdown as HTML that cannot run anything.

The Markdown may come from a tool or a web page, so raw HTML and images become text, and links lead
only to http, https, mailto or relative addresses. Headings start below those of the page:
`# Setup` becomes `<h3>Setup</h3>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ralph.core.invisible import show_invisible

SCHEMES = frozenset({"http", "https", "mailto"})
MAX_LENGTH = 200_000  # characters; longer text is shown unformatted
_HEADING_OFFSET = 2  # heading levels used by the page itself
_MAX_HEADING_LEVEL = 6
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_IGNORED_IN_ADDRESSES = re.compile(
    r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+"
)
"""Invisible characters, which a browser may skip in an address before it reads the scheme."""


def render_html(text: str, *, lines: bool = False) -> str:
    """Render Markdown as HTML. With `lines`, every line break is kept.

    Invisible characters are shown as their code points.
    """
    text = show_invisible(text)
    if len(text) > MAX_LENGTH:
        return f"<pre><code>{escape(text)}</code></pre>\n"
    parser = _parser(lines)
    tokens = parser.parse(text)
    _shift_headings(tokens)
    for token in tokens:
        if token.type in ("th_open", "td_open"):
            _align_cell(token)
        for link in _links(token):
            link.attrSet("rel", "noopener noreferrer nofollow")
            if _SCHEME.match(str(link.attrs.get("href", ""))):
                link.attrSet("target", "_blank")
    return str(parser.renderer.render(tokens, parser.options, {}))


def _shift_headings(tokens: list[Token]) -> None:
    """Renumber headings so that they start below the page's own and skip no level."""
    levels: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag.removeprefix("h"))
            levels = [above for above in levels if above < level]
            levels.append(level)
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(len(levels) + _HEADING_OFFSET, _MAX_HEADING_LEVEL)}"


def _align_cell(cell: Token) -> None:
    """Replace a cell's inline style, which the content security policy forbids, with a class."""
    side = str(cell.attrs.pop("style", "")).removeprefix("text-align:")
    if side in ("left", "center", "right"):
        cell.attrSet("class", f"align-{side}")


def _links(token: Token) -> Iterator[Token]:
    for child in token.children or ():
        if child.type == "link_open":
            yield child


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  (the name in markdown-it)
        """Return whether a link is allowed.

        It is rejected if a browser might read a scheme in its address that is not allowed.
        """
        address = _IGNORED_IN_ADDRESSES.sub("", url)
        scheme = _SCHEME.match(address)
        if scheme is not None:
            return scheme[1].lower() in SCHEMES
        first_segment = re.split(r"[/?#]", address, maxsplit=1)[0]
        return ":" not in first_segment


@lru_cache(maxsize=2)
def _parser(breaks: bool) -> MarkdownIt:
    options = {"html": False, "linkify": False, "typographer": False, "breaks": breaks}
    parser = _Parser("commonmark", options)
    return parser.enable(["table", "strikethrough"]).disable("image")
