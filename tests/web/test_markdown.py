"""Whatever somebody wrote, what comes out can only be read."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.page_texts import TAGS

from ralph.web.markdown import MAX_LENGTH, SCHEMES, render_html

ATTRIBUTES = frozenset(["href", "title", "rel", "target", "class", "start", "data-link"])

PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "<!--", "-->", "<![CDATA[",
    "<?php",
    "<a href='javascript:alert(1)'>", "</p>", "[x](", ")", "](", "[", "]", "![", "<", ">", "javascript:",
    "JaVaScRiPt:",
    "java\tscript:", "java\nscript:", "java&#10;script:", "&#106;avascript:", "&#x6A;avascript:", "&colon;", "&Tab;",
    "data:text/html,",
    "data:image/svg+xml,<svg>", "data:image/png;base64,xx", "vbscript:", "file:///etc/passwd", "blob:",
    "\x01javascript:", "\u200bjavascript:",
    "//evil.example", "\\\\evil", "http://a.example/", "https:x", "mailto:a@b.example", "tel:1", "<http://a.example>",
    "<javascript:alert(1)>", "<a@b.example>", "[a]: javascript:alert(1)\n", "[a]", "[a][a]",
    "[[x](http://a)](http://b)", "[![i](http://a)](http://b)",
    "[[", "]]", "[[a-b]]", "ralph://session/", "ralph://memory/%0Ajavascript:",
    '"', "'", "`", "```", "```js onload=x\n", "~~~", "    code", "# ", "###### ", "- ", "1. ", "2147483648. ", "> ",
    "|", "|-|\n", "| :-: | --: |\n",
    "| a | b |\n", "\n", "\n\n", "---\n", "***", "__", "~~", "*", "&lt;", "&amp;", "&quot;", "&#0;", "\x00",
    "\ud800", "\x0b", "\u2028", "\u202e",
    "한국어", "onclick=", "style=", " title='", "(", "%", "%0Ajavascript:", "\\", "\t", "  \n", "<b", "<!DOCTYPE", "x",
    " ",
]  # fmt: skip


class _Seen(HTMLParser):
    """Every tag and attribute, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.ends: list[str] = []
        self.other: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.ends.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)


def seen(text: str) -> _Seen:
    parser = _Seen()
    parser.feed(render_html(text))
    parser.close()
    return parser


def check(text: str) -> None:
    found = seen(text)
    assert not found.other
    assert set(found.ends) <= TAGS
    within = 0
    for tag, attributes in found.tags:
        assert tag in TAGS, tag
        for name, value in attributes:
            assert name in ATTRIBUTES, name
            assert not name.startswith("on")
            if name == "href":
                leads(value or "")
    for token in re.findall(r"<(/?)a\b", render_html(text)):
        within += -1 if token else 1
        assert 0 <= within <= 1, "a link within a link"


def leads(address: str) -> None:
    """As browsers do it: control characters and spaces at the ends go, tabs and line ends everywhere."""
    bare = re.sub(r"[\t\r\n]", "", address.strip("".join(map(chr, range(33)))))
    scheme = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):", bare)
    assert scheme is None or scheme[1].lower() in SCHEMES, address


@given(st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_pieces_of_tricks_give_nothing_that_runs(text: str) -> None:
    check(text)


@given(st.text(max_size=400))
def test_any_text_gives_nothing_that_runs(text: str) -> None:
    check(text)


@given(
    st.sampled_from(["[x]({})", "[x](<{}>)", "<{}>", "![x]({})", "[x]: {}\n\n[x]"]),
    st.text(max_size=60),
    st.sampled_from(PIECES),
)
def test_no_address_leads_to_a_script(shape: str, words: str, trick: str) -> None:
    for address in (trick + words, words + trick):
        check(shape.format(address))


@given(st.text(alphabet=st.characters(exclude_characters="\r\x00"), min_size=1, max_size=60))
def test_a_tag_is_shown_as_it_was_written(words: str) -> None:
    word = "".join(char for char in words if char.isalnum()) or "x"
    assert f"<script>{word}</script>" in seen(f"a <script>{word}</script> b").text


@pytest.mark.parametrize(
    "text",
    [
        "[x](javascript:alert(1))", "[x](JAVASCRIPT:alert(1))", "[x](java\tscript:alert(1))",
        "[x](<java\tscript:alert(1)>)", "[x](&#106;avascript:alert(1))",
        "[x](\x01javascript:alert(1))", "[x](data:text/html,<script>alert(1)</script>)", "[x](vbscript:x)",
        "[x](file:///etc/passwd)",
        "<javascript:alert(1)>", "[a]\n\n[a]: javascript:alert(1)", "[x](javascript&colon;alert(1))",
        "[x](blob:http://a/b)",
    ],
)  # fmt: skip
def test_a_link_that_may_lead_nowhere_is_text(text: str) -> None:
    assert "<a" not in render_html(text)


def test_links_open_by_themselves_and_tell_nothing_of_us() -> None:
    assert render_html("[x](https://a.example/b?c#d)").strip() == (
        '<p><a href="https://a.example/b?c#d" rel="noopener noreferrer nofollow" target="_blank">x</a></p>'
    )
    assert 'target="_blank"' not in render_html("[x](docs/a.md)")
    assert 'href="docs/a.md"' in render_html("[x](docs/a.md)")


def test_images_are_links_and_within_links_words() -> None:
    assert "<img" not in render_html("![a cat](http://a.example/cat.png)")
    assert '<a href="http://a.example/cat.png"' in render_html("![a cat](http://a.example/cat.png)")
    nested = render_html("[![a cat](http://a.example/cat.png)](http://b.example)")
    assert nested.count("<a ") == 1
    assert "a cat" in nested


def test_what_people_write_looks_like_it() -> None:
    text = "# One\n\n- a\n- **b** `c`\n\n| x | y |\n|:-:|--:|\n| 1 | 2 |\n\n```py\nx < 1\n```\n\n~~gone~~"
    got = render_html(text)
    for part in ("<h3>One</h3>", "<li>a</li>", "<strong>b</strong>", "<code>c</code>", "<table>",
    'class="align-center"',
                 'class="language-py"', "x &lt; 1", "<s>gone</s>"):  # fmt: skip
        assert part in got, part
    assert "style=" not in got


def test_headings_begin_below_those_of_the_page_and_leave_no_level_out() -> None:
    found = seen("## Second\n\n##### Fifth\n\n### Third\n\n# First\n\n###### Sixth")
    assert [tag for tag, _ in found.tags] == ["h3", "h4", "h4", "h3", "h4"]


def test_facts_keep_their_lines() -> None:
    assert render_html("Goal: a\nChanged: b", lines=True) == "<p>Goal: a<br />\nChanged: b</p>\n"
    assert "<br" not in render_html("Goal: a\nChanged: b")


def test_a_very_long_text_is_shown_as_it_is() -> None:
    text = "# <b>x</b>\n" * (MAX_LENGTH // 10)
    found = seen(text)
    assert [tag for tag, _ in found.tags] == ["pre", "code"]
    assert found.text.strip() == text.strip()


@pytest.mark.parametrize(
    ("text", "href", "words"),
    [
        ("See [[Release steps]].", "/memory?q=Release%20steps", "Release steps"),
        ("([[sums-of-prices]])", "/memory?q=sums%20of%20prices", "sums of prices"),
        (
            "Thread: ralph://session/0e551011-0000-4000",
            "/sessions/0e551011-0000-4000",
            "0e551011-0000",
        ),
        ("ralph://memory/mem-1-ab12", "/memory/mem-1-ab12", "mem-1-ab12"),
    ],
    ids=["title", "slug", "session", "memory"],
)
def test_a_reference_is_a_link_to_its_page(text: str, href: str, words: str) -> None:
    html = render_html(text)
    assert f'<a href="{href}" data-link="">{words}</a>' in html
    assert "[[" not in html
    assert "ralph://" not in html


@pytest.mark.parametrize("text", ["`[[x]]`", "[a [[b]]](http://x.example)"], ids=["code", "link"])
def test_a_reference_in_code_or_in_a_link_is_text(text: str) -> None:
    assert "data-link" not in render_html(text)
