"""Render Markdown as HTML that cannot run anything.

The Markdown may come from a tool or a web page, so raw HTML and images become text, and links lead
only to http, https, mailto or relative addresses. Headings start below those of the page:
`# Setup` becomes `<h3>Setup</h3>`. A title in `[[brackets]]` becomes a link to a search, and an
address such as `ralph://session/ID` a link to that page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape
from urllib.parse import quote, unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ralph.core.invisible import show_invisible

SCHEMES = frozenset({"http", "https", "mailto"})
MAX_LENGTH = 200_000  # characters; longer text is shown unformatted
_HEADING_OFFSET = 2  # heading levels used by the page itself
_MAX_HEADING_LEVEL = 6
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_PAGE_LINK = "data-link"  # the attribute of links that open a page without loading the site again
_PAGES = {"memory": "memory", "session": "sessions", "task": "tasks", "run": "runs"}
"""The path of the page for each noun in one of Ralph's own addresses."""
_REFERENCE = re.compile(
    r"\[\[([^\[\]\n]{1,200})\]\]|ralph://(memory|session|task|run)/([\w.%~-]{1,200})"
)
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")
_MAX_SHOWN_ID = 13  # characters of an id in a text
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
        if token.children:
            token.children = list(_link_references(token.children))
        if token.type in ("th_open", "td_open"):
            _align_cell(token)
        for link in _links(token):
            if _PAGE_LINK in link.attrs:
                continue
            link.attrSet("rel", "noopener noreferrer nofollow")
            if _SCHEME.match(str(link.attrs.get("href", ""))):
                link.attrSet("target", "_blank")
    return str(parser.renderer.render(tokens, parser.options, {}))


def _link_references(children: Iterable[Token]) -> Iterator[Token]:
    """Yield the parts of a line, with references such as `[[Release steps]]` as links to pages."""
    depth = 0  # of links
    for child in children:
        if child.type in ("link_open", "link_close"):
            depth += child.nesting
        if child.type == "text" and depth == 0:
            yield from _split_references(child)
        else:
            yield child


def _split_references(text: Token) -> Iterator[Token]:
    position = 0
    for match in _REFERENCE.finditer(text.content):
        yield _text_token(text.content[position : match.start()])
        yield from _page_link(match)
        position = match.end()
    yield _text_token(text.content[position:])


def _page_link(match: re.Match[str]) -> Iterator[Token]:
    """Yield a link for a title in brackets, which is searched for, or for Ralph's own address."""
    title, noun, name = match.groups()
    if title is not None:
        words = title.strip()
        if _SLUG.fullmatch(words):
            words = words.replace("-", " ")
        address = f"/memory?q={quote(words, safe='', errors='replace')}"
    else:
        words = unquote(name)
        address = f"/{_PAGES[noun]}/{quote(words, safe='', errors='replace')}"
        words = words[:_MAX_SHOWN_ID]
    yield Token("link_open", "a", 1, attrs={"href": address, _PAGE_LINK: ""})
    yield _text_token(words)
    yield Token("link_close", "a", -1)


def _text_token(content: str) -> Token:
    return Token("text", "", 0, content=content)


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
