"""Somebody's markdown as HTML that can do nothing but be read.

What is remembered was written by agents, tools and strangers' pages. Raw HTML is text here, links lead to http, https,
mail or relative addresses and nowhere else, images are links, so that looking at a record asks no other host for
anything. No attribute holds style or script; headings begin below those of the page and leave no level out. It is
markdown-it with its HTML off, and a pass over its tokens: what is not on the lists is never rendered.
`tests/web/test_markdown.py` throws arbitrary texts at it and looks at every tag and attribute that comes out.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from html import escape

from markdown_it import MarkdownIt
from markdown_it.token import Token

TAGS = frozenset("p h3 h4 h5 h6 ul ol li blockquote pre code em strong s a hr br table thead tbody tr th td".split())
"""Every tag that can come out."""
ATTRIBUTES = frozenset("href title rel target class start".split())
"""Every attribute that can come out."""
SCHEMES = frozenset({"http", "https", "mailto"})
"""Where a link may lead, besides relative addresses."""

MAX_LENGTH = 200_000
"""Characters that are read as markdown; what is longer is shown as it is."""
_HEADING_OFFSET = 2
"""Headings that the page has for itself."""
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_INVISIBLE = re.compile(r"[\x00-\x20\x7f-\xa0\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""What a browser may leave out of an address before it looks at the scheme, and more."""


def render_html(text: str, *, lines: bool = False) -> str:
    """The HTML of a markdown text; with `lines` each line of it is one, as in a list of facts."""
    if len(text) > MAX_LENGTH:
        return f"<pre><code>{escape(text)}</code></pre>\n"
    parser = _parser(lines)
    return str(
        parser.renderer.render(list(map(_strip_attributes, _shift_headings(parser.parse(text)))), parser.options, {})
    )


class _Parser(MarkdownIt):
    """markdown-it, as careful about links as we are."""

    def validateLink(self, url: str) -> bool:  # noqa: N802  (its name there)
        """Whether a link may lead there; whatever a browser might take for another scheme may not."""
        bare = _INVISIBLE.sub("", url)
        scheme = _SCHEME.match(bare)
        if scheme is not None:
            return scheme[1].lower() in SCHEMES
        return ":" not in re.split(r"[/?#]", bare, maxsplit=1)[0]


@lru_cache(maxsize=2)
def _parser(lines: bool) -> MarkdownIt:
    made = _Parser("commonmark", {"html": False, "linkify": False, "typographer": False, "breaks": lines})
    return made.enable(["table", "strikethrough"])


def _shift_headings(tokens: Iterable[Token]) -> Iterator[Token]:
    """Headings each one level below the one that they belong to: a text may begin with its third level, or skip one."""
    above: list[int] = []
    for token in tokens:
        if token.type == "heading_open":
            level = int(token.tag[1:])
            above = [*(each for each in above if each < level), level]
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(len(above) + _HEADING_OFFSET, 6)}"
        yield token


def _strip_attributes(token: Token) -> Token:
    """A token without anything that a page of ours does not have."""
    if token.type in ("th_open", "td_open"):
        side = str(token.attrs.pop("style", "")).removeprefix("text-align:")
        if side in ("left", "center", "right"):
            token.attrSet("class", f"align-{side}")
    if token.children:
        token.children = list(_sanitize_links(token.children))
    return token


def _sanitize_links(tokens: Iterable[Token]) -> Iterator[Token]:
    """Links that open by themselves and tell nothing of us, and images as links; within a link, as their words."""
    depth = 0
    for token in tokens:
        depth += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "link_open":
            yield _external_link(token)
        elif token.type == "image":
            yield from _image(token, within=depth > 0)
        else:
            yield token


def _image(token: Token, *, within: bool) -> Iterator[Token]:
    address = str(token.attrs.get("src", ""))
    words = Token("text", "", 0, content=_inner_text(token) or address)
    if within or not address:
        yield words
        return
    opening = Token("link_open", "a", 1)
    opening.attrSet("href", address)
    yield _external_link(opening)
    yield words
    yield Token("link_close", "a", -1)


def _inner_text(token: Token) -> str:
    return "".join(each.content or _inner_text(each) for each in token.children or ())


def _external_link(token: Token) -> Token:
    token.attrSet("rel", "noopener noreferrer nofollow")
    if _SCHEME.match(str(token.attrs.get("href", ""))):
        token.attrSet("target", "_blank")
    return token
