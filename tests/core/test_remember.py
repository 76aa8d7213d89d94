"""Which prompts ask Ralph to remember something, and what the text to remember is."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.core.remember import REMEMBER_PREFIXES, asks_to_forget, text_to_remember

TEXT = "deploys go through `make ship`"

REQUESTS = {
    "English": f"remember: {TEXT}",
    "English, capital": f"Remember: {TEXT}",
    "English, capitals": f"REMEMBER: {TEXT}",
    "English, no space": f"remember:{TEXT}",
    "English, space before the colon": f"remember : {TEXT}",
    "English, full-width colon": f"remember：{TEXT}",
    "English, tab": f"remember:\t{TEXT}",
    "English, that": f"Remember that {TEXT}",
    "English, two spaces": f"remember  that  {TEXT}",
    "English, please": f"Please remember that {TEXT}",
    "English, please and colon": f"please remember: {TEXT}",
    "English, indented": f"  remember: {TEXT}",
    "English, on the next line": f"remember:\n{TEXT}",
    "English, after a blank line": f"remember:\n\n{TEXT}",
    "English, carriage returns": f"remember: {TEXT}\r\n\r\nNow fix the test.",
    "German": f"Merke: {TEXT}",
    "English, exclamation mark": f"Remember!: {TEXT}",
    "French, curly apostrophe": f"N’oublie pas que {TEXT}",
    "French, elision": f"Retiens qu'{TEXT}",
    "German, dir": f"merk dir: {TEXT}",
    "German, dass": f"Merk dir, dass {TEXT}",
    "German, dass with full-width comma": f"Merk dir，dass {TEXT}",
    "German, capitals": f"MERKE DIR: {TEXT}",
    "German, please": f"Bitte merken: {TEXT}",
    "Spanish": f"Recuerda: {TEXT}",
    "Spanish, que": f"recuerda que {TEXT}",
    "Spanish, formal": f"Recuerde que {TEXT}",
    "Spanish, capital accent": f"ACUÉRDATE DE QUE {TEXT}",
    "French": f"Retiens : {TEXT}",
    "French, no-break space": f"Retiens\u00a0: {TEXT}",
    "French, narrow no-break space": f"Retenez\u202f: {TEXT}",
    "French, no space": f"retiens: {TEXT}",
    "French, que": f"Retenez que {TEXT}",
    "French, souviens-toi": f"Souviens-toi que {TEXT}",
    "Korean": f"기억해: {TEXT}",
    "Korean, noun": f"기억: {TEXT}",
    "Korean, full-width colon": f"기억해줘：{TEXT}",
    "Korean, spaced": f"기억해 줘: {TEXT}",
    "Korean, polite": f"기억해 주세요 : {TEXT}",
    "Japanese": f"覚えて: {TEXT}",
    "Japanese, full-width colon": f"覚えておいて：{TEXT}",
    "Japanese, polite": f"覚えておいてください：{TEXT}",
    "Japanese, ideographic space": f"記憶して：\u3000{TEXT}",
    "Chinese": f"记住：{TEXT}",
    "Chinese, ASCII colon": f"记住: {TEXT}",
    "Chinese, comma": f"记住，{TEXT}",
    "Chinese, please": f"请记住：{TEXT}",
    "Chinese, traditional": f"記住：{TEXT}",
    "command": f"/mem-add {TEXT}",
    "command of the plugin": f"/ralph:mem-add {TEXT}",
    "command of Codex": f"/prompts:mem-add {TEXT}",
    "skill of Codex": f"$mem-add {TEXT}",
    "command with a line break": f"/mem-add\n{TEXT}",
    "command with a tab": f"/mem-add\t{TEXT}",
    "command with two spaces": f"/mem-add  {TEXT}",
    "below what the host adds": f"<hook_context>x</hook_context>\n\nremember: {TEXT}",
}

OTHERS = {
    "nothing": "",
    "the prefix alone": "remember:",
    "the command alone": "/mem-add",
    "another command": "/mem-address the issue",
    "another word": "remembered: the cache was stale",
    "a longer word": "remember thatcher's law",
    "in the middle": "Fix the cart. remember: it adds up",
    "on the second line": "Fix the cart.\nremember: prices are cents",
    "a statement about oneself": "I remember that the port was 8080",
    "a statement about oneself, German": "Ich merke: das war zu viel",
    "a statement about oneself, Spanish": "No recuerda que el puerto es 8080",
    "a question": "Remember that script? Where is it?",
    "a question with a dot inside": "Remember that v1.2 release we made?",
    "a question, do you": "Do you remember that script?",
    "a question, Spanish": "¿Recuerda que hay un script?",
    "a question, French": "Retiens que quoi ? Je ne comprends pas.",
    "the prefix of another sentence": "remember to run the tests",
    "a fence": "```\nremember: x is y\n```",
    "a fence of tildes": "~~~\nremember: x is y\n~~~",
    "inline code": "`remember: x` does not work",
    "a quotation": "> remember: x is y",
    "quotation marks": '"remember: x is y" is what the docs say',
    "a German quotation": "„merke: x“ steht da",
    "only a fence below": "remember:\n```\nx is y\n```",
    "only a quotation below": "remember:\n> x is y",
    "a log": "12:01:04 INFO remember: session 4 stored\n12:01:05 INFO done",
    "a log of a service": "[remember] that key expired",
    "a shell prompt": "$ remember: command not found",
    "a file name": "remember.py: line 4 is wrong",
    "a key of an object": '{"remember": "x"}',
    "a tag of a program": "<bash-input>remember: x is y</bash-input>",
    "a notification": "<task-notification>remember: x</task-notification>",
    "a compacted session": (
        "This session is being continued from a previous conversation.\nremember: x is y"
    ),
    "Korean, a statement": "기억이 안 나: 포트가 뭐였지",
    "Japanese, a statement": "覚えていない: ポート",
    "Chinese, a question": "记住了吗：端口",
}


@pytest.mark.parametrize("prompt", REQUESTS.values(), ids=REQUESTS)
def test_a_request_is_recognised_in_every_spelling(prompt: str) -> None:
    assert text_to_remember(prompt) == TEXT


@pytest.mark.parametrize("prefix", REMEMBER_PREFIXES)
def test_every_default_prefix_works_in_lower_and_upper_case(prefix: str) -> None:
    assert text_to_remember(f"{prefix} {TEXT}") == TEXT
    assert text_to_remember(f"{prefix.upper()} {TEXT}") == TEXT


@pytest.mark.parametrize("prompt", OTHERS.values(), ids=OTHERS)
def test_a_prompt_that_merely_contains_the_word_is_not_a_request(prompt: str) -> None:
    assert text_to_remember(prompt) == ""


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        pytest.param("remember: one\ntwo\n\nNow fix it.", "one\ntwo", id="up to a blank line"),
        pytest.param("remember: one\n  \t\nNow fix it.", "one", id="up to a line of spaces"),
        pytest.param("remember: one\n```\nlog\n```", "one", id="up to a fence"),
        pytest.param("remember: one\n> quoted", "one", id="up to a quotation"),
        pytest.param("remember: one\rtwo\r\rthree", "one\ntwo", id="lines end with a return"),
        pytest.param("remember: is it 80? It is 81.", "is it 80? It is 81.", id="question inside"),
        pytest.param(
            "Remember that the port is 80. Is it open?",
            "the port is 80. Is it open?",
            id="a question after the statement",
        ),
    ],
)
def test_the_text_is_the_first_paragraph(prompt: str, expected: str) -> None:
    assert text_to_remember(prompt) == expected


def test_own_prefixes_replace_the_defaults() -> None:
    own = ("onthoud:", "note to self")
    assert text_to_remember(f"Onthoud : {TEXT}", own) == TEXT
    assert text_to_remember(f"Note to  self {TEXT}", own) == TEXT
    assert text_to_remember(f"note to selfie {TEXT}", own) == ""
    assert text_to_remember(f"remember: {TEXT}", own) == ""
    assert text_to_remember(f"/mem-add {TEXT}", own) == TEXT


def test_no_prefixes_of_ones_own_mean_the_defaults() -> None:
    assert text_to_remember(f"remember: {TEXT}", ()) == TEXT


def test_a_question_in_full_width_marks_needs_no_space_after_it() -> None:
    assert text_to_remember("记得 端口是什么？在哪里设置。", ("记得",)) == ""


@pytest.mark.parametrize(
    "prompt", ["forget that", "Forget that.", " FORGET THAT! ", "forget  that"]
)
def test_forget_that_is_recognised_as_a_whole_prompt(prompt: str) -> None:
    assert asks_to_forget(prompt)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "forget it",
        "forget that idea",
        "please do not forget that",
        "forget that\n\nand fix the test",
        "forget that?",
        "> forget that",
        "<bash-input>forget that</bash-input>",
    ],
)
def test_anything_more_than_forget_that_is_not_a_request(prompt: str) -> None:
    assert not asks_to_forget(prompt)


@given(st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_any_prompt_can_be_examined_with_any_prefixes(prompt: str, prefixes: list[str]) -> None:
    found = text_to_remember(prompt, prefixes)
    assert found == found.strip()
    assert "\n\n" not in found
    asks_to_forget(prompt)


@given(st.sampled_from(REMEMBER_PREFIXES), st.from_regex(r"\A[a-z]{3,9}( [a-z0-9]{1,9}){1,9}\Z"))
def test_the_text_after_a_prefix_is_kept_unchanged(prefix: str, text: str) -> None:
    assert text_to_remember(f"{prefix} {text}") == text


GOLDEN = Path(__file__).parents[1] / "golden"

# --- prompts by native speakers -----------------------------------------------------------------

# Two authors wrote these without having seen the prefixes. At first sight, 65 and 102 of 105
# requests were recognised, and none of the other prompts was taken for one.
PROMPTS = json.loads((GOLDEN / "remember.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("prompt", PROMPTS["requests"], ids=lambda prompt: prompt["text"][:40])
def test_a_request_by_a_native_speaker_is_recognised(prompt: dict[str, str]) -> None:
    assert text_to_remember(prompt["text"])


@pytest.mark.parametrize("prompt", PROMPTS["others"], ids=lambda prompt: prompt["text"][:40])
def test_a_prompt_that_only_contains_the_word_is_not_a_request(prompt: dict[str, str]) -> None:
    assert not text_to_remember(prompt["text"])
