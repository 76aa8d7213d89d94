"""The rules of the front end that can be read off its files, without a browser.

Whether the pages work is for the tests in a real Chromium; here is what must hold of every file: short, no HTML from
strings but in one place, nothing inline, nothing from outside, every import there, a small first page, colours that
can be read.
"""

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ralph.core.invisible import show_invisible

STATIC = Path(__file__).parents[2] / "src" / "ralph" / "web" / "static"
LONGEST = 400
FIRST_PAGE = 150_000
MARKDOWN = "parts/markdown.js"


def own(*suffixes: str) -> list[Path]:
    found = (
        path for path in sorted(STATIC.rglob("*")) if path.suffix in suffixes and path.is_file()
    )
    return [path for path in found if "vendor" not in path.relative_to(STATIC).parts]


def name_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def without_comments(text: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"(?m)(^|\s)//.*$", "", text)


def imports(text: str) -> Iterator[str]:
    yield from re.findall(
        r"""(?m)^\s*(?:import|export)\s*(?:[^"';]*?\bfrom\s*)?["']([^"']+)["']""", text
    )
    yield from re.findall(r"""\bfrom\s*["'](\.[^"']+)["']""", text)


def statically_loaded(start: Path) -> set[Path]:
    """A module and all that it imports, and what these import."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [(path.parent / name).resolve() for name in imports(text_of(path))]
    return found


class Tags(HTMLParser):
    """What a page holds: each tag with its attributes, and the text within script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in ("script", "style") and self.cdata_elem:
            self.inline += data


def shell() -> Tags:
    tags = Tags()
    tags.feed(text_of(STATIC / "index.html"))
    return tags


@pytest.mark.parametrize("path", own(".js", ".css", ".html"), ids=name_of)
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    assert len(text_of(path).splitlines()) <= LONGEST


@pytest.mark.parametrize("path", own(".js"), ids=name_of)
def test_a_module_begins_with_what_it_is_for(path: Path) -> None:
    assert text_of(path).startswith(("//", "/*"))


@pytest.mark.parametrize("path", own(".js"), ids=name_of)
def test_html_comes_from_strings_in_one_place_alone(path: Path) -> None:
    ways = (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "dangerouslySetInnerHTML",
        "document.write",
        "eval(",
        "new Function",
    )
    found = [way for way in ways if way in without_comments(text_of(path))]
    assert found == (["dangerouslySetInnerHTML"] if name_of(path) == MARKDOWN else [])


@pytest.mark.parametrize("path", own(".js", ".css", ".html", ".svg"), ids=name_of)
def test_nothing_is_loaded_from_outside(path: Path) -> None:
    text = without_comments(text_of(path)).replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"(?i)(https?:)?//[a-z0-9]", text)
    assert "@import" not in text


@pytest.mark.parametrize("path", own(".js"), ids=name_of)
def test_every_import_is_a_file_that_is_there(path: Path) -> None:
    for name in imports(text_of(path)):
        assert name.startswith("."), f"{name} is no file beside"
        assert (path.parent / name).is_file(), f"{name} is not there"


def test_each_page_of_the_table_is_a_file_with_a_page() -> None:
    pages = re.findall(r'\["/[^"]*", "(\w+)"\]', text_of(STATIC / "parts" / "router.js"))
    assert len(pages) == 16
    for page in pages:
        assert re.search(
            r"export (?:async )?function Page\b", text_of(STATIC / "pages" / f"{page}.js")
        )


def test_the_shell_holds_nothing_inline() -> None:
    tags = shell()
    assert not tags.inline.strip()
    for tag, attributes in tags.found:
        assert tag != "style"
        assert tag != "script" or attributes.get("src")
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_the_shell_loads_files_that_are_there() -> None:
    for _, attributes in shell().found:
        address = attributes.get("src") or attributes.get("href")
        if address:
            assert address.startswith("/static/")
            assert (STATIC / address.removeprefix("/static/")).is_file()


def test_the_first_page_is_small() -> None:
    sheets = [
        attributes["href"]
        for tag, attributes in shell().found
        if tag == "link" and attributes.get("href")
    ]
    files = {STATIC / str(href).removeprefix("/static/") for href in sheets}
    files |= {STATIC / "index.html", STATIC / "early.js"}
    files |= statically_loaded(STATIC / "app.js") | statically_loaded(
        STATIC / "pages" / "dashboard.js"
    )
    total = sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in files)
    assert total < FIRST_PAGE, f"{total} bytes in {len(files)} files"


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_every_module_is_javascript(tmp_path: Path) -> None:
    checker = tmp_path / "check.mjs"  # one process for all files: a module is compiled, never run
    checker.write_text(
        "import { readFileSync } from 'node:fs';\nimport { SourceTextModule } from 'node:vm';\n"
        "for (const identifier of process.argv.slice(2))\n"
        "  new SourceTextModule(readFileSync(identifier, 'utf8'), { identifier });\n",
        encoding="utf-8",
    )
    command = [
        "node",
        "--experimental-vm-modules",
        "--no-warnings",
        str(checker),
        *map(str, own(".js")),
    ]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this machine")
def test_pages_show_invisible_characters_as_the_terminal_does(tmp_path: Path) -> None:
    texts = [f"a{chr(code)}b" for code in (*range(0x20, 0x3200), *range(0xFE00, 0x10000))]
    texts = [text for text in texts if not "\ud800" <= text[1] <= "\udfff"]
    texts += [
        "\u2764\ufe0f",
        "\u200d",
        "\u0646\u200c\u062f",
        "\u200b\u200d",
        "x\U000e0041",
        "\U0001f468\u200d\U0001f4bb",
    ]
    module = STATIC / "parts" / "invisible.js"
    program = tmp_path / "show.mjs"
    program.write_text(
        f"import {{ showInvisibleIn }} from {json.dumps(module.as_uri())};\n"
        "import { readFileSync } from 'node:fs';\n"
        "console.log(JSON.stringify(showInvisibleIn(JSON.parse(readFileSync(0, 'utf8')))));\n",
        encoding="utf-8",
    )
    shown = subprocess.run(
        ["node", "--no-warnings", str(program)],
        input=json.dumps(texts),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert json.loads(shown.stdout) == [show_invisible(text) for text in texts]


# --- colours ------------------------------------------------------------------------------------

SHADES = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")
GROUNDS = ("paper", "surface", "sunken", "hover")
HUES = ("teal", "iris", "amber", "sky", "rose", "plum", "moss", "slate")
TEXT = 4.5
SHAPE = 3.0

PAIRS = [
    *(
        (ink, ground, TEXT)
        for ink in ("ink", "ink-2", "ink-3", "accent", "danger")
        for ground in GROUNDS
    ),
    *((f"hue-{hue}", ground, TEXT) for hue in HUES for ground in (*GROUNDS, "accent-soft")),
    *((ink, "accent-soft", TEXT) for ink in ("ink", "ink-2", "ink-3", "accent")),
    ("on-accent", "accent", TEXT),
    ("danger", "danger-soft", TEXT),
    ("ink", "danger-soft", TEXT),
    ("ink", "mark", TEXT),
    ("ink-2", "mark", TEXT),
    *((ink, f"{side}-soft", TEXT) for side in ("plus", "minus") for ink in ("ink", side)),
    *(("line-2", ground, SHAPE) for ground in GROUNDS),
]
"""Which colour stands on which ground, and the contrast that it needs (WCAG 2.2, AA)."""


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("ink", "ground", "least"), PAIRS, ids=str)
def test_a_colour_can_be_read_on_its_ground(ink: str, ground: str, least: float) -> None:
    shades = {name: pair for name, *pair in SHADES.findall(text_of(STATIC / "style" / "base.css"))}
    for theme, at in (("light", 0), ("dark", 1)):
        found = contrast(shades[ink][at], shades[ground][at])
        assert found >= least, f"{ink} on {ground}, {theme}: {found:.2f}"


def test_every_kind_has_a_hue_that_exists() -> None:
    table = re.search(
        r"const HUES = \{(.*?)\};", text_of(STATIC / "parts" / "format.js"), re.DOTALL
    )
    assert table
    assert set(re.findall(r': "(\w+)"', table[1])) <= set(HUES)
