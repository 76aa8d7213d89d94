"""A person who changes something in the pages, and looks closely.

The diff that the server tells must be drawn line by line, must fit the file to the letter, and once the person says yes
the file must say just that, and no other file anything new.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from ralph.core import paths
from ralph.storage.sources import source_names


def everything(root: Path) -> dict[str, bytes]:
    """Every file that people care for; what is derived aside."""
    return {
        source_names(root)(path): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
        and "ralph.db" not in path.name
        and "cache" not in path.parts
        and (".git" not in path.parts or {"ralph", "log"} <= set(path.parts))
    }


def patched(before: str, diff: str) -> str:
    """A text after a unified diff, which must fit it to the letter."""
    old = before.splitlines(keepends=True)
    new: list[str] = []
    at = 0
    for line in diff.splitlines(keepends=True)[2:]:
        if found := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
            start = int(found[1]) - (found[2] != "0")
            new += old[at:start]
            at = start
        elif line.startswith("\\"):
            new[-1] = new[-1].removesuffix("\n")
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at].rstrip("\n") == line[1:].rstrip("\n")
            new += [old[at]] if line.startswith(" ") else []
            at += 1
    return "".join(new + old[at:])


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:[\d.]+Z")
"""When an insight was judged or the old words of a page were put by: a moment after the diff was made."""


class Change:
    """A person who changes something in an open dialog."""

    def __init__(self, page: Page, root: Path) -> None:
        self.page = page
        self.root = root
        self.dialog = page.get_by_role("dialog")
        self.plan: Any = {}

    def looked(self, how: Locator) -> Mapping[str, str]:
        """Ask for the diff with a button; what each file would say, which the page shows line by line."""
        with self.page.expect_response("**/api/changes/plan") as answer:
            how.click()
        self.plan = answer.value.json()
        expect(self.dialog.locator(".review")).to_contain_text(self.plan["summary"])
        wanted = {}
        for at, file in enumerate(self.plan["files"]):
            drawn = self.dialog.locator(".diff").nth(at)
            expect(drawn.locator("figcaption")).to_contain_text(file["name"])
            signed = [line for line in file["diff"].splitlines()[2:] if line[:1] in "+-"]
            shown = drawn.locator(".diff-plus .diff-text, .diff-minus .diff-text")
            expect(shown).to_have_count(len(signed))
            spoken = {"+": "added: ", "-": "removed: "}
            assert [text or "" for text in shown.all_text_contents()] == [
                spoken[line[0]] + line[1:] for line in signed
            ]
            path = paths.source_path(self.root, file["name"])
            before = path.read_bytes().decode("utf-8") if path.exists() else ""
            wanted[file["name"]] = patched(before, file["diff"])
        return wanted

    def see(self) -> Mapping[str, str]:
        """From the form to the diff."""
        return self.looked(self.dialog.get_by_role("button", name="Preview"))

    def apply(self, words: str, wanted: Mapping[str, str]) -> None:
        """Say yes; then the files say what the diff said, and no other file changed."""
        others = {name: said for name, said in everything(self.root).items() if name not in wanted}
        with self.page.expect_response("**/api/changes/apply"):
            self.dialog.get_by_role("button", name=words, exact=True).click()
        expect(self.page.locator(".toasts")).to_contain_text(self.plan["summary"])
        expect(self.dialog).to_have_count(0)
        now = everything(self.root)
        for name, text in wanted.items():
            assert _TIME.sub("now", now[name].decode("utf-8")) == _TIME.sub("now", text)
        assert {name: said for name, said in now.items() if name not in wanted} == others

    def undo(self) -> None:
        """Take it back with the message's button."""
        with self.page.expect_response("**/api/changes/undo") as answer:
            self.page.locator(".toast").get_by_role("button", name="Undo").click()
        expect(self.page.locator(".toasts")).to_contain_text(answer.value.json()["summary"])
