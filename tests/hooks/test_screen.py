"""The screen passes nothing that the rules would change, and lets ordinary work pass."""

import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.capture import samples
from tests.hooks.ordinary import payloads

from ralph.capture import assignments, blocks, privacy, secrets
from ralph.capture.redactor import Astray, Redactor, plain
from ralph.hooks.screen import suspicious

GOLDEN = Path(__file__).parents[1] / "golden" / "privacy"
SECRETS: list[dict[str, list[str]]] = json.loads((GOLDEN / "secrets.json").read_text(encoding="utf-8"))
LOOKALIKES: list[dict[str, str]] = json.loads((GOLDEN / "lookalikes.json").read_text(encoding="utf-8"))
RANDOM = random.Random(11)
EXAMPLES = int(os.environ.get("RALPH_EXAMPLES", "0"))
"""More than usual, for a long search: each property is tried so often."""
TEXTS = ["".join(case["parts"]) for case in SECRETS]


def changed(text: str) -> bool:
    return privacy.redact(text).text != text or privacy.strip_private(text)[0] != text


def encodings(value: object) -> Iterator[bytes]:
    """One value as hosts and tools may write it: with and without escapes, and as JSON inside of JSON."""
    for ascii_only in (True, False):
        for separators in ((",", ":"), (", ", ": ")):
            once = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
            twice = json.dumps({"out": once}, ensure_ascii=ascii_only, separators=separators)
            yield once.encode("utf-8", "surrogatepass")
            yield twice.encode("utf-8", "surrogatepass")
            yield once.replace("/", "\\/").encode("utf-8", "surrogatepass")


def strings(value: object) -> Iterator[str]:
    """Every string in a value, those of JSON in strings, and each member as `key: value`."""
    if isinstance(value, str):
        yield value
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            return
        if not isinstance(inner, str) or inner != value:
            yield from strings(inner)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from strings(member)
            if isinstance(member, str):
                yield json.dumps({key: member}, ensure_ascii=False)
    elif isinstance(value, list):
        for member in value:
            yield from strings(member)


def check(value: object) -> None:
    for payload in encodings(value):
        if not suspicious(payload):
            text = payload.decode("utf-8")
            for string in (text, *strings(json.loads(text))):
                assert not changed(string), payload


@pytest.mark.parametrize("text", TEXTS, ids=[str(case["id"]) for case in SECRETS])
def test_no_golden_secret_that_the_rules_know_gets_past_in_any_encoding(text: str) -> None:
    check({"session_id": "s", "tool_response": {"stdout": text}})
    check({"session_id": "s", "lines": [text, "and more", text]})
    check({text: "x", "y": text})
    if changed(text):
        assert all(map(suspicious, encodings({"stdout": text})))


@pytest.mark.parametrize("kind", samples.TOKENS)
def test_no_made_token_gets_past_alone_or_behind_anything(kind: str) -> None:
    for token in samples.TOKENS[kind]:
        for text in (
            token,
            f"found {token} here",
            f"\n{token}\n",
            f"X={token}",
            f"\x1b[1m{token}\x1b[0m",
            f"%3D{token}",
        ):
            check({"stdout": text})
        assert all(map(suspicious, encodings({"stdout": f"got {token} back"})))


@pytest.mark.parametrize("rule", secrets.rules(), ids=lambda rule: f"{rule.kind} {rule.anchor}")
def test_every_rule_for_tokens_has_its_row(rule: secrets.Rule) -> None:
    known = 0
    for _ in range(8):
        token = drawn(rule.lead) + rule.anchor + drawn(rule.body)
        for text in (token, f"x={token} y", f"\n{token}", f"\\n{token}"):
            known += changed(text)
            check({"stdout": text})
    assert known


def drawn(pattern: str) -> str:
    """A text that a pattern matches, short more often than long, as a machine would choose it."""
    return _drawn(import_module("re._parser").parse(pattern))


def _drawn(parts: Any) -> str:
    text = ""
    for name, argument in parts:
        match str(name):
            case "LITERAL":
                text += chr(argument)
            case "IN":
                text += RANDOM.choice(_signs(argument))
            case "MAX_REPEAT" | "POSSESSIVE_REPEAT":
                least, most, inner = argument
                more = 0 if RANDOM.random() < 0.6 else min(int(most) - least, RANDOM.randint(0, 12))
                text += "".join(_drawn(inner) for _ in range(least + more))
            case "SUBPATTERN":
                text += _drawn(argument[3])
            case "BRANCH":
                text += _drawn(RANDOM.choice(argument[1]))
    return text


def _signs(members: Any) -> list[str]:
    found, other = [], False
    for name, argument in members:
        match str(name):
            case "LITERAL":
                found.append(chr(argument))
            case "RANGE":
                found += map(chr, range(argument[0], argument[1] + 1))
            case "CATEGORY":
                found += "٠١٢٣٤" if RANDOM.random() < 0.02 else "0123456789"
            case "NEGATE":
                other = True
    return [sign for sign in map(chr, range(33, 127)) if sign not in found] if other else found


ENDINGS = [ending for endings, _ in assignments._ENDINGS for ending in endings]
OTHERS = ["DB_PASS", "db_pw", "jwtPW", "GITHUB_PAT", "ACME_KEY", "Access Key", "api key", "DBPass", "비밀번호",
          "api 키", "ПАРОЛЬ", "contraseña", "토큰", "curl -u a", "Bearer", "Basic ", "mysql -p", "sshpass -p ",
          "Cookie: sid", "docker login -p ", "pass:", "sig=", "mnemonic", "seed phrase", "postgres://a", "https://a",
          "\"d\"", "requirepass ", "host:5432:db:user", "login a password", "<private", "</private", "< private",
          "&lt;private", "%3Cprivate", "\\u003cprivate", "PRİVATE", "\u212aey", "＜private", "<prıvate", "<ｐrivate",
          "echo -n ", "echo a | sudo -S ", "docker login --password-stdin <<< ", "chpasswd <<< a:"]  # fmt: skip
NEUTRAL = ["", "", "_1", "Value", "_prod", "-old", ".v", "_id", "s", "_length", "_name"]
SIGNS = ["=", ":", ": ", " = ", "=>", ":=", "?=", "==", "!=", ">", ",", "|", " is ", " was ", " ", "\t", "\t=\t",
         "=\\\n", "=\\\n  ", " \\\n", " |\n-----+-----\n x | ", " |\n|---|\n| ", "\n-----\n ", "|x\n",
         '": "', "': '", '":"', "**: `", '", "value": "', ': str = "', " string = '", " [x]: ", '\\": \\"',
         "@"]  # fmt: skip
VALUES = ["hunter2", "Summer2024", "Zx9kLm", "rootpw", "BlueHorse", "12345679", "correct-horse-battery-staple",
          "qwe!Rty", "abcdefghijklmnopqrst", "XkQzWvRtYp", "get_secret()",
          "xkqzvbwrtplmnghd", "bjpqcnpt", "a.b.c9", "${X}", "ab\\ncd12", 'ab"cd12',
          "dXNlcjpodW50ZXIy", "admin:hunter2x@host", "token abc12345x", "비밀hunter2", "true\\_x9y8z7",
          "\x1b[1mhunter2", "b'hunter2x9'", "9f8b6c2e-1d3a-4b5c-8d7e-0f1a2b3c4d5e", "none", "string",
          "5432"]  # fmt: skip
EDGES = ["", "", " ", "\n", '"', "'", "`", "\\", "export ", "ENV ", "set -x ", "-", "--", "user=a ", "{", "}", ")", ";",
         "\t", "\x1b[0m", "C:\\", "\\n", " host=c", "@host:1/", "(x)", "[0]", ">", "</x>", "%3D", "x",
         "\n(1 row)\n", " |\n", "id | ", "-[ RECORD 1 ]---\n", "echo ",
         " | docker login --password-stdin", " | sudo -S ls", "\r", "\r\n", "\\\n", "\u200b", "＜", "＞"]  # fmt: skip

edges = st.sampled_from(EDGES)
CASINGS: list[Callable[[str], str]] = [str, str.upper, str.title, str.lower]
casing = st.sampled_from(CASINGS)
value_texts = st.one_of(
    st.sampled_from(VALUES),
    st.text("abcdefxyzABCXYZ0123456789!$%&_.-/+=\\\"'", min_size=1, max_size=30),
    st.sampled_from([token for tokens in samples.TOKENS.values() for token in tokens]),
)


@st.composite
def assigned(draw: st.DrawFn) -> str:
    """A name, a sign and a value, with something before, between and behind."""
    name = draw(casing)(draw(st.sampled_from(ENDINGS + OTHERS))) + draw(st.sampled_from(NEUTRAL))
    quote = draw(st.sampled_from(["", "", '"', "'", "`"]))
    closing = quote if draw(st.integers(0, 5)) else ""
    return "".join(
        [draw(edges), name, draw(st.sampled_from(SIGNS)), quote, draw(value_texts), closing, draw(edges), draw(edges)]
    )


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A golden text, cut or with something put into it."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(EDGES + SIGNS)) + text[at + draw(st.integers(0, 2)) :]
    cut = draw(st.integers(0, len(text)))
    return text[cut:] if draw(st.booleans()) else text


@st.composite
def surrounded(draw: st.DrawFn) -> str:
    """A value that only its surroundings tell: a column of a table, or what is piped into a login."""
    value, end = draw(value_texts), draw(st.sampled_from(["\n", "\r\n", "\\n"]))
    if draw(st.booleans()):
        said = draw(st.sampled_from(["echo {} | ", "echo -n '{}' | ", 'printf "%s" "{}" |', "{} <<< ", "echo a:{} | "]))
        program = draw(st.sampled_from([*blocks.RECEIVERS, "sudo -S", "cat", "docker login --password-stdin"]))
        return said.format(value) + program if "echo" in said or "printf" in said else f"{program} <<< {value}"
    name = draw(casing)(draw(st.sampled_from(ENDINGS + OTHERS))) + draw(st.sampled_from(NEUTRAL))
    head, rule, row, foot = draw(st.sampled_from(TABLES))
    lines = [head.format(name), rule, row.format(value), draw(edges), draw(st.sampled_from([foot, foot, ""]))]
    return end.join(line for line in lines if line)


TABLES = [
    ("| id | {} |", "| --- | :---: |", "| 1 | {} |", ""),
    (" id | {}", "----+-----", "  1 | {}", "(1 row)"),
    ("| {} |", "+---+", "| {} |", "+---+"),
    (" {}", "-----", " {}", "(2 rows)"),
    ("id|{}", "", "1|{}", "(1 row)"),
    ("-[ RECORD 1 ]---", "a | b", "password | {}", ""),
    ("{}\t|\tid", "--- | ---", "{}\t|\t1", ""),
]
pieces = st.one_of(
    assigned(), assigned(), mutated(), surrounded(), st.sampled_from([case["text"] for case in LOOKALIKES]), st.text()
)
texts = st.lists(pieces, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from(["", " ", "\n", '"', "\\"]).map(lambda joint: joint.join(parts))
)


@settings(max_examples=EXAMPLES or 400)
@given(texts, texts)
def test_nothing_passes_that_the_rules_would_change(text: str, other: str) -> None:
    assume(not any("\ud800" <= sign <= "\udfff" for sign in text + other))
    check({"session_id": "s", "tool_response": {"stdout": text}, "more": [other]})


@settings(max_examples=EXAMPLES or 200)
@given(st.sampled_from(ENDINGS + OTHERS), casing, st.sampled_from(NEUTRAL), value_texts)
def test_a_secret_split_over_a_key_and_its_value_does_not_pass(
    name: str, case: Callable[[str], str], end: str, value: str
) -> None:
    check({"session_id": "s", "tool_input": {case(name) + end: value}})


@settings(max_examples=EXAMPLES or 200)
@given(st.text())
def test_random_text_passes_only_if_the_rules_leave_it_alone(text: str) -> None:
    assume(not any("\ud800" <= sign <= "\udfff" for sign in text))
    check({"stdout": text})


@pytest.mark.parametrize(
    "text",
    ["<private>", "</private>", "<PRIVATE >", "< / private>", "&lt;private&gt;", "&amp;lt;private", "%3Cprivate%3E",
     "<\u200bprivate>", "<pri\u00advate>", "＜private＞", "<prıvate>", "<ｐｒｉｖａｔｅ>", "<pri\\\nvate>",
     "<priv\rate>",
     "<\nprivate>", "<\u3000private>", "\\u003cprivate>", "\\x3cprivate>", "<private a='b'>", "<PRİVATE>"],
)  # fmt: skip
def test_a_private_part_is_seen_in_every_spelling(text: str) -> None:
    assert all(map(suspicious, encodings({"prompt": f"see {text} x"})))


@pytest.mark.parametrize(
    "payload", [b'{"a":"\\u003cprivate>"}', b'{"a":"<\\u0070rivate>"}', b'{"a":"\\/x"}', b'{"a":"\xff"}']
)
def test_what_hides_its_letters_is_suspicious(payload: bytes) -> None:
    assert suspicious(payload)


COLOURS = ["\x1b[32m", "\x1b[0;1m", "\x1b[38;5;12m", "\x9b1m", "\x1b[0m\x1b[K", "\\033[1m", "\\x1b[31m", "\\u001b[1m",
           "\x1b(B\x1b[m", "-", "\n-", "'-", '"-', "\t-", "\x1b[>4;2m", "\x1b[?25l", "\x1b[=1h", "\\\n", "\\\r\n",
           "\x1b]8;;https://a.example/b\x07", "\x1b]8;;\x1b\\", "\x1bPq#0;2\x1b\\", "\x1b[ q", "\x9d0;t\x9c",
           "\r", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad", "\ufe0f", "^[[31m", "\\e[1m",
           "\x1b7", "\x1b", "\\u200b",
           "\\\\\\n", "\x08", "\x0c", "\r\n"]  # fmt: skip


def plainly_changed(text: str) -> bool:
    """Whether capture would take anything out: without colours, and without the signs of a patch."""
    try:
        return Redactor(())(text) != plain(text)
    except Astray:
        return True


@pytest.mark.parametrize("kind", samples.TOKENS)
def test_neither_a_colour_nor_the_sign_of_a_patch_hides_a_token(kind: str) -> None:
    for before, token in product(COLOURS, samples.TOKENS[kind]):
        for text in (f"{before}{token}", f"found:\n{before}{token}\x1b[0m here"):
            if plainly_changed(text):
                assert all(map(suspicious, encodings({"stdout": text}))), text


@settings(max_examples=EXAMPLES or 300)
@given(texts, st.lists(st.tuples(st.integers(0, 200), st.sampled_from([*COLOURS, "\x7f", "\x1b]0;t\x07"]))))
def test_nothing_passes_that_only_shows_itself_without_colours(text: str, colours: list[tuple[int, str]]) -> None:
    assume(not any("\ud800" <= sign <= "\udfff" for sign in text))
    for at, colour in colours:
        text = text[:at] + colour + text[at:]
    check({"stdout": text})
    for ascii_only in (True, False):
        payload = json.dumps({"stdout": text}, ensure_ascii=ascii_only).encode()
        if not suspicious(payload):
            assert not plainly_changed(text), payload


@pytest.mark.parametrize(
    "text", ["<pri\x1b[1mvate>", "PASS\x1b[0mWORD=hunter2x9", "PASS\bWORD=hunter2x9", "to\x7fken: Zx9kLmQ2"]
)
def test_what_is_split_by_a_control_sign_is_seen(text: str) -> None:
    for ascii_only in (True, False):
        assert suspicious(json.dumps({"stdout": text}, ensure_ascii=ascii_only).encode())


@pytest.mark.parametrize(
    "text",
    ["\x1b[32m✓\x1b[39m adds an item \x1b[2m(3 ms)\x1b[22m", "\x1b[1m\x1b[46m RUN \x1b[49m\x1b[22m v1.6.0 /home/proj",
     "echo -e '\\033[0;32mok\\033[0m'", "\x1b[31m- old line\x1b[m\n\x1b[32m+ new line\x1b[m", "-rw-r--r-- 1 user user",
     "\x1b[33msk-container-id\x1b[0m", "--- a/src/app.py\n+++ b/src/app.py\n-    password_field = form.field()",
     "\x1b(B\x1b[mdone"],
)  # fmt: skip
def test_colours_and_patches_pass_when_nothing_like_a_token_follows(text: str) -> None:
    assert not suspicious(json.dumps({"stdout": text}, ensure_ascii=False).encode())


def test_signs_that_the_rules_take_for_ascii_letters_are_suspicious() -> None:
    for number in range(128, sys.maxunicode + 1):
        if not 0xD800 <= number <= 0xDFFF and any(sign.isascii() for sign in privacy.lower(chr(number))):
            assert suspicious(f'{{"a":"{chr(number)}"}}'.encode()), hex(number)


def test_ordinary_payloads_pass_but_for_one_in_ten_at_most() -> None:
    found = payloads()
    stopped = [payload for payload in found if suspicious(payload)]
    assert len(found) > 100
    assert not any(changed(string) for payload in found for string in strings(json.loads(payload)))
    assert len(stopped) <= len(found) // 10, stopped


def test_even_of_texts_that_look_like_secrets_most_pass() -> None:
    stopped = [case for case in LOOKALIKES if suspicious(json.dumps({"a": case["text"]}, ensure_ascii=False).encode())]
    assert len(stopped) < len(LOOKALIKES) // 3
