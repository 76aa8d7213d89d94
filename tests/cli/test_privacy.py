"""Nothing private and no secret reaches the disk through any command, not even in a file's name or a backup."""

import textwrap
from base64 import b64encode
from hashlib import sha256

import pytest
from tests.support.runner import Block, Project

# Put together here, so that no file of this repository holds what looks like a secret.
KEY = "\n".join(textwrap.wrap(b64encode(sha256(b"not a key").digest() * 8).decode(), 64))
TOKENS = {
    "GitHub": "gh" + "p_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5",
    "AWS": "AK" + "IA" + "Q7RZ5M2KLN4PXW3T",
    "key block": "-----BEGIN " + f"PRIVATE KEY-----\n{KEY}\n-----END " + "PRIVATE KEY-----",
}
ONE = Block("Uses barrel exports", "mem-1705751400-a3f8")


@pytest.mark.parametrize("file", ["memories", "guardrails"])
@pytest.mark.parametrize("name", TOKENS)
def test_a_text_with_a_secret_is_refused_and_not_repeated(
    ralph: Project, file: str, name: str
) -> None:
    secret = TOKENS[name]
    said = ralph("memory", "add", "--in", file, f"The deploy needs\n{secret}")
    assert (said.code, said.out) == (1, "")
    assert "secret" in said.err
    assert "line 2" in said.err
    assert "--allow-secret" in said.err
    assert secret not in said.err
    assert ralph.files() == []


def test_a_secret_in_a_tag_from_stdin_or_in_an_edit_is_refused(ralph: Project) -> None:
    ralph.memories(ONE)
    before = ralph.marks()
    token = TOKENS["GitHub"]
    ralph.put("note.md", token)
    before = ralph.marks()
    for words, stdin in [
        (["add", "A text", "--tags", f"a,{token}"], ""),
        (["add", "-"], f"use {token}\n"),
        (["add", "--file", str(ralph.file("note.md"))], ""),
        (["edit", ONE.id, "--text", f"use {token}"], ""),
        (["edit", ONE.id, "--tags", token], ""),
    ]:
        said = ralph("memory", *words, stdin=stdin)
        assert said.code == 1, words
        assert token not in said.err, words
    assert ralph.marks() == before


def test_allow_secret_stores_it_anyway(ralph: Project) -> None:
    text = f"A fake for the tests: {TOKENS['GitHub']}"
    added = ralph("memory", "add", text, "--allow-secret", "--format", "json").json
    assert added["content"] == text
    assert ralph("memory", "edit", added["id"], "--text", text + "!", "--allow-secret").code == 0


def test_a_pattern_of_the_project_is_a_secret_too(ralph: Project) -> None:
    ralph.put("ralph.yml", "privacy:\n  patterns:\n    - 'cust-\\d{4}'\n")
    before = ralph.marks()
    for file in ("memories", "guardrails"):
        assert ralph("memory", "add", "--in", file, "Ask cust-1234 first").code == 1
    assert ralph.marks() == before
    ralph("scratchpad", "Ask cust-1234 first")
    assert b"cust-1234" not in ralph.everything()


@pytest.mark.parametrize(
    "text",
    [
        "Keep <private>HIDDEN</private> this",
        "Keep <PRIVATE>HIDDEN</Private> this",
        "Keep this <private>HIDDEN and never closed",
        "Keep <private>a <private>HIDDEN</private> HIDDEN</private> this",
        "Keep <private>\nHIDDEN\n\nHIDDEN\n</private> this",
        "Keep < private >HIDDEN</ private > this",
        "Keep \\u003cprivate\\u003eHIDDEN\\u003c/private\\u003e this",
        "Keep &lt;private&gt;HIDDEN&lt;/private&gt; this",
    ],
)
def test_private_parts_never_reach_the_disk(ralph: Project, text: str) -> None:
    added = ralph("memory", "add", text)
    assert added.code == 0
    assert "left out 1 private section(s)" in added.err
    ralph("memory", "add", "--in", "guardrails", "-", stdin=text)
    ralph("scratchpad", "--replace", text)
    ralph("scratchpad", text)
    entry_id = ralph("memory", "list", "--format", "json").ids[0]
    assert (
        ralph(
            "memory", "edit", entry_id, "--text", text + " again" if "closed" not in text else text
        ).code
        == 0
    )
    assert ralph("memory", "init", "--force").code == 0
    assert ralph("memory", "init", "--in", "guardrails", "--force").code == 0
    everything = ralph.everything()
    assert b"HIDDEN" not in everything
    assert b"Keep" in everything


def test_private_tags_never_reach_the_disk(ralph: Project) -> None:
    ralph("memory", "add", "A text", "--tags", "ok,<private>HIDDEN,HIDDEN</private>,fine")
    assert b"HIDDEN" not in ralph.everything()
    entry = ralph("memory", "list", "--format", "json").json[0]
    assert entry["tags"] == ["ok", "fine"]
    ralph("memory", "edit", entry["id"], "--tags", "<private>HIDDEN</private>,new")
    assert b"HIDDEN" not in ralph.everything()
    assert ralph("memory", "show", entry["id"], "--format", "json").json["tags"] == ["new"]


def test_a_text_that_is_all_private_is_refused(ralph: Project) -> None:
    said = ralph("memory", "add", "<private>HIDDEN</private>")
    assert said.code == 1
    assert "private" in said.err
    assert ralph.files() == []
