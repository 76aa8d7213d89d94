"""Renders markdown as HTML that cannot run anything.

Records are written by agents, tools and web pages. Raw HTML becomes text; links lead to http, https, mailto or relative
addresses only; images become links, so that a page requests nothing from other hosts. No attribute holds style or
script. Headings begin below those of the page and skip no level.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

TAGS = frozenset("p h3 h4 h5 h6 ul ol li blockquote pre code em strong s a hr br table thead tbody tr th td".split())
ATTRIBUTES = frozenset("href title rel target class start".split())
SCHEMES = frozenset({"http", "https", "mailto"})
MAX_LENGTH = 200_000
"""Characters; a longer text is shown unformatted."""
_HEADING_OFFSET = 2
"""The heading levels of the page itself."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""Characters that a browser may ignore in an address before it reads the scheme, and more."""


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  (the name in markdown-it)
        """Return whether a link is allowed; whatever a browser could read as another scheme is not."""
        address = _INVISIBLE.sub("", url)
        scheme = _SCHEME.match(address)
        if scheme is not None:
            return scheme[1].lower() in SCHEMES
        return ":" not in re.split(r"[/?#]", address, maxsplit=1)[0]


@lru_cache(maxsize=2)
def _parser(breaks: bool) -> MarkdownIt:
    parser = _Parser("commonmark", {"html": False, "linkify": False, "typographer": False, "breaks": breaks})
    return parser.enable(["table", "strikethrough"])


def render_html(text: str, *, lines: bool = False) -> str:
    """Return the HTML of a markdown text; with `lines` every line break is kept."""
    if len(text) > MAX_LENGTH:
        return f"<pre><code>{escape(text)}</code></pre>\n"
    parser = _parser(lines)
    tokens = parser.parse(text)
    levels: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            levels = [*(above for above in levels if above < level), level]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(len(levels) + _HEADING_OFFSET, 6)}"
        if token.type in ("th_open", "td_open"):
            side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
            if side in ("left", "center", "right"):
                token.attrSet("class", f"align-{side}")
        if token.children:
            token.children = list(_sanitize_links(token.children))
    return str(parser.renderer.render(tokens, parser.options, {}))


def _sanitize_links(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield tokens with external links and with images as links; an image within a link becomes text."""
    depth = 0
    for token in tokens:
        depth += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "link_open":
            yield _external_link(token)
        elif token.type == "image":
            address = str(token.attrs.get("src", ""))
            label = Token("text", "", 0, content=_inner_text(token) or address)
            if depth > 0 or not address:
                yield label
            else:
                opening = Token("link_open", "a", 1)
                opening.attrSet("href", address)
                yield from (_external_link(opening), label, Token("link_close", "a", -1))
        else:
            yield token


def _inner_text(token: Token) -> str:
    return "".join(child.content or _inner_text(child) for child in token.children or ())


def _external_link(token: Token) -> Token:
    token.attrSet("rel", "noopener noreferrer nofollow")
    if _SCHEME.match(str(token.attrs.get("href", ""))):
        token.attrSet("target", "_blank")
    return token
