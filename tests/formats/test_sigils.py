"""Sigils: how agents write them, what only looks like one, repeats, laws, and the worst of texts."""

import json
from collections.abc import Callable
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.golden import HERE as GOLDEN
from tests.support.laws import messy

from ralph.formats.sigils import KnowledgeSigil, Sigils, WhyIgnored, read_sigils

RULES = """\
# Ralph loop: iteration 1 of at most 20

- Do not revert changes that you did not make.
- When the task is complete, say so on a line of its own: <task-done>t-abc123</task-done>
- When it cannot be done, say why: <task-failed id="t-abc123">the reason</task-failed>

## Memory

End your answer with a `<journal>`:

<journal>
(your notes)
</journal>

One entry each:

<knowledge tags="first-tag,second-tag" title="(a short title)">
(at most about 500 words)
</knowledge>

`<next-model>NAME</next-model>` asks for another model.
"""
VERIFY = """\
Answer with exactly one of these on a line of its own:

<verify-pass/>
<verify-fail>(what is missing or wrong, in a few sentences)</verify-fail>
"""


class Case(NamedTuple):
    """A sigil as it is asked for, without words, without its end, and what it says."""

    written: str
    empty: str
    unclosed: str
    said: Sigils


CASES = {
    "journal": Case(
        "<journal>\nChose a map.\n\nTests pass.\n</journal>", "<journal> \n </journal>", "<journal>Chose a map.",
        Sigils(journal="Chose a map.\n\nTests pass."),
    ),
    "knowledge": Case(
        '<knowledge tags="a,b" title="T">\nWords.\n</knowledge>', "", '<knowledge tags="a" title="T">Words.',
        Sigils(knowledge=(KnowledgeSigil("T", ("a", "b"), "Words."),)),
    ),
    "task-done": Case("<task-done>t-abc123</task-done>", "<task-done></task-done>", "<task-done>t-abc123",
                      Sigils(done=("t-abc123",))),
    "task-failed": Case("<task-failed>t-abc123</task-failed>", "<task-failed/>", "<task-failed>t-abc123",
                        Sigils(failed={"t-abc123": ""})),
    "promise": Case("<promise>COMPLETE</promise>", "<promise></promise>", "<promise>COMPLETE",
                    Sigils(promise="COMPLETE")),
    "next-model": Case("<next-model>opus</next-model>", "<next-model> </next-model>", "<next-model>opus",
                       Sigils(next_model="opus")),
    "verify-pass": Case("<verify-pass/>", "", "I cannot say <verify-pass> yet", Sigils(verified=True)),
    "verify-fail": Case("<verify-fail>No test.</verify-fail>", "", "<verify-fail>No test.",
                        Sigils(verified=False, reason="No test.")),
}  # fmt: skip
each_sigil = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@each_sigil
def test_a_sigil_is_read_wherever_it_is_alone_on_a_line(case: Case) -> None:
    for around in (
        "{}",
        "Before.\n\n{}\n\nAfter.\n",
        "**{}**",
        "  \t{}  \r\n",
        "- {}",
        "1. {}",
        "{}{{}}",
        "\ufeff{}",
    ):
        assert read_sigils(around.replace("{}", case.written, 1)) == case.said
    assert read_sigils(case.written.replace("\n", "\r\n")) == case.said


@pytest.mark.parametrize("name", CASES)
def test_what_decides_over_a_task_counts_alone_on_a_line_of_the_last_message(name: str) -> None:
    case, decides = CASES[name], name in ("task-done", "promise", "verify-pass", "verify-fail")
    expected = Sigils() if decides else case.said
    for text in ("In a {} line", "{} or so", "It is: {}", "no <journal> </journal>{}"):
        assert read_sigils(text.replace("{}", case.written)) == expected
    text = f"{case.written}\n\nThe last message."
    assert read_sigils(text, last_message_start=text.index("The")) == expected
    assert read_sigils(f"First.\n\n{case.written}", last_message_start=8) == case.said


@each_sigil
def test_case_and_underscores_and_white_space_within_a_tag_do_not_matter(case: Case) -> None:
    assert read_sigils(_tags(case.written, str.upper)) == case.said
    assert read_sigils(_tags(case.written, lambda tag: tag.replace("-", "_"))) == case.said
    assert read_sigils(_tags(case.written, lambda tag: tag.replace(">", " \n>"))) == case.said


def _tags(written: str, change: Callable[[str], str]) -> str:
    """A sigil with its tags' names changed, attributes and texts as they are."""
    for name in CASES:
        for tag in (f"<{name}>", f"</{name}>", f"<{name}/>", f"<{name} "):
            written = written.replace(tag, change(tag))
    return written


@each_sigil
def test_what_is_not_there_or_empty_or_unclosed_says_nothing(case: Case) -> None:
    assert read_sigils("") == read_sigils("Nothing of the sort.") == Sigils()
    assert read_sigils(case.empty) == Sigils()
    if "<journal>" not in case.unclosed:
        assert read_sigils(case.unclosed) == Sigils()
        assert read_sigils(f"{case.unclosed}\n</other>\n<journals>x</journals>") == Sigils()


def test_the_journal_of_an_agent_that_was_cut_off_is_kept() -> None:
    assert (
        read_sigils("Half done.\n<journal>\nthe parser is split; next: the").journal
        == "the parser is split; next: the"
    )
    text = "<journal>notes\n<task-done>t-aaaaaa</task-done>"
    assert (read_sigils(text).journal, read_sigils(text).done) == ("notes", ("t-aaaaaa",))
    assert read_sigils("<journal>\nold\n</journal>\n<journal>\nnew").journal == "new"
    assert read_sigils("I will write a <journal> at the end.").journal == ""


@each_sigil
@pytest.mark.parametrize(
    "shown",
    [
        "```\nSay\n{}\n```",
        "~~~xml\n{}\n...\n~~~",
        "````\n```\n{}\n```\n````",
        "- ```\n  {}\n  #\n  ```",
        "<!--\n{}\n-->",
    ],
    ids=["backticks", "tildes", "nested", "list", "comment"],
)
def test_a_sigil_that_is_only_shown_is_not_said(case: Case, shown: str) -> None:
    text = shown.replace("{}", case.written)
    assert read_sigils(f"Like this:\n\n{text}\n\nSo.") == Sigils()
    assert read_sigils(f"{text}\n{case.written}\n{text}") == case.said


@each_sigil
@pytest.mark.parametrize(
    "fence", ["```\n{}\n```", "~~~xml\n\n{}\n\n~~~", "- ```\n  {}\n  ```", "`{}`"]
)
def test_a_code_block_that_holds_nothing_but_sigils_counts(case: Case, fence: str) -> None:
    if "\n" not in case.written or fence != "`{}`":
        assert (
            read_sigils(f"So:\n\n{fence.replace('{}', case.written)}\n\nThat is all.") == case.said
        )
    both = f"{CASES['next-model'].written}\n<promise>COMPLETE</promise>"
    assert read_sigils(f"```\n{both}\n```") == Sigils(next_model="opus", promise="COMPLETE")


@pytest.mark.parametrize("name", ["task-done", "promise", "verify-pass", "next-model"])
def test_inline_code_and_quotes_are_not_said(name: str) -> None:
    case = CASES[name]
    for shown in (
        f"Then `{case.written}` follows",
        f"``x ` {case.written}``",
        f"> {case.written}",
        f" >{case.written}",
    ):
        assert read_sigils(shown) == Sigils()
        assert read_sigils(f"{shown}\n\n{case.written}\nand `code`") == case.said
    assert read_sigils(f"one ` backtick\n{case.written}") == case.said


def test_an_unclosed_fence_hides_nothing() -> None:
    assert read_sigils("```\ncode\n\n<task-done>t-1</task-done>").done == ("t-1",)


# --- notes -------------------------------------------------------------------------------------


def test_the_last_journal_with_words_counts() -> None:
    assert (
        read_sigils("<journal>one</journal>\n<journal>two</journal>\n<journal></journal>").journal
        == "two"
    )


def test_a_mention_in_a_sentence_swallows_nothing() -> None:
    text = "I will end with a <journal> of it.\n\nWork.\n\n<journal>\nNotes on <journal> tags.\n</journal>\n"
    assert read_sigils(text).journal == "Notes on <journal> tags."
    assert read_sigils("Close it by </journal>. <journal>Notes</journal>").journal == "Notes"
    torn = '<knowledge tags="a" title="Torn">half\n\n<knowledge tags="b" title="Whole">\nAll.\n</knowledge>'
    assert [each.title for each in read_sigils(torn).knowledge] == ["Whole"]
    mention = '<knowledge tags="a" title="T">\n<knowledge> needs a title.\n</knowledge>'
    assert read_sigils(mention).knowledge == (
        KnowledgeSigil("T", ("a",), "<knowledge> needs a title."),
    )


def test_what_stands_within_a_sigil_is_its_text() -> None:
    said = read_sigils(
        "<journal>\nI did not say <task-done>t-1</task-done> since a test fails.\n</journal>"
    )
    assert said.done == ()
    assert "<task-done>t-1</task-done>" in said.journal


def test_code_within_a_note_is_kept() -> None:
    body = "Run this:\n\n```sh\nmake test\n```\n\nand `make check`."
    assert read_sigils(f"<journal>\n{body}\n</journal>").journal == body


@pytest.mark.parametrize(
    "opening",
    [
        '<knowledge tags="a,b" title="A > B">',
        '<knowledge title="A > B" tags="a,b">',
        "<knowledge title='A > B' tags='a,b'>",
        '<knowledge\n  title="A > B"\n  tags="a,b"\n>',
        '<knowledge\r\ntags="a,b"\r\ntitle="A > B">',
        '<KNOWLEDGE TITLE="A > B" Tags = "A , B,,a">',
        '<knowledge title="A &gt; B" tags="a,b">',
        '<knowledge title="A &#62; B" tags="&#x61;,b">',
        "<knowledge title=“A > B” tags=“a,b”>",
        '<knowledge id=7 title="A > B", tags="a,b" lang="en">',
        '<knowledge title="A\n  > B" tags="a,\nb">',
        '<knowledge title="A > B" title="C" tags="a,b">',
        "<knowledge title='A > B' tag='a, b'>",
    ],
)
def test_attributes_in_any_order_and_with_any_quotes(opening: str) -> None:
    assert read_sigils(f"{opening}\nWords.\n</knowledge>").knowledge == (
        KnowledgeSigil("A > B", ("a", "b"), "Words."),
    )


def test_entities_are_resolved_in_attributes_and_left_alone_in_bodies() -> None:
    text = '<knowledge title="&quot;R&amp;D&quot; &apos;&copy; &#0; &amp;lt;" tags="x">a &lt;b&gt; &amp; c</knowledge>'
    assert read_sigils(text).knowledge == (
        KnowledgeSigil('"R&D" \'© \ufffd &lt;', ("x",), "a &lt;b&gt; &amp; c"),
    )
    assert read_sigils("&lt;task-done&gt;t-1&lt;/task-done&gt;") == Sigils()


def test_several_entries_are_read_in_order_and_lacking_ones_too() -> None:
    text = (
        '<knowledge title="One" tags="a">1</knowledge> <knowledge tags="b">2</knowledge>\n'
        '<knowledge title="Three">3</knowledge><knowledge title="Four" tags="d"/><knowledge>5</knowledge>'
    )
    assert read_sigils(text).knowledge == (
        KnowledgeSigil("One", ("a",), "1"),
        KnowledgeSigil("", ("b",), "2"),
        KnowledgeSigil("Three", (), "3"),
        KnowledgeSigil("Four", ("d",), ""),
        KnowledgeSigil("", (), "5"),
    )


# --- tasks and verdicts ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("<task-done>\n t-1 \n</task-done>", ("t-1",)),
        ("<task-done>t-1, t-2</task-done> <task-done>t-1</task-done>", ("t-1", "t-2")),
        ('<task-done id="t-1"/>', ("t-1",)),
        ("<task-done id=t-1 />", ("t-1",)),
        ('<task-done id="t-1">All tests pass</task-done>', ("t-1",)),
        ("<task-done>`t-1`: all tests pass, also the slow ones</task-done>", ("t-1",)),
        ("<task-done>login</task-done>", ("login",)),
        ("<task-done>all tests pass</task-done>", ()),
        ("<task-done>../../etc</task-done>", ()),
    ],
)
def test_a_done_task_is_named_by_its_id(text: str, done: tuple[str, ...]) -> None:
    assert read_sigils(text) == Sigils(done=done)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        (
            '<task-failed id="t-1">No network here.\nNone.</task-failed>',
            {"t-1": "No network here.\nNone."},
        ),
        ("<task-failed>t-1: no network</task-failed>", {"t-1": "no network"}),
        ("<task-failed>t-1 - no network, ever</task-failed>", {"t-1": "no network, ever"}),
        ("<task-failed>t-1</task-failed><task-failed>t-2 x</task-failed>", {"t-1": "", "t-2": "x"}),
        ("<task-failed>no network</task-failed>", {"": "no network"}),
        ("<task-failed>impossible</task-failed>", {"": "impossible"}),
        ('<task-failed reason="no key"/>', {"": "no key"}),
    ],
)
def test_a_failed_task_comes_with_the_reason(text: str, failed: dict[str, str]) -> None:
    assert read_sigils(text) == Sigils(failed=failed)


def test_done_and_failed_are_both_told() -> None:
    said = read_sigils("<task-done>t-1</task-done><task-failed>t-1</task-failed>")
    assert (said.done, dict(said.failed)) == (("t-1",), {"t-1": ""})


def test_the_last_promise_and_model_that_make_sense_count() -> None:
    assert (
        read_sigils(
            "<promise>failure</promise><promise> Complete. </promise><promise>maybe</promise>"
        ).promise
        == "COMPLETE"
    )
    assert read_sigils("<promise>FAILURE</promise>").promise == "FAILURE"
    models = "<next-model>a/b-1.5:x</next-model><next-model>`claude-opus-4[1m]`</next-model>"
    assert (
        read_sigils(models + "<next-model>the best one</next-model>").next_model
        == "claude-opus-4[1m]"
    )
    assert read_sigils("<next-model>--dangerously-skip-permissions</next-model>").next_model == ""


@pytest.mark.parametrize(
    ("text", "verified", "reason"),
    [
        ("<verify-pass />", True, ""),
        ("<verify-pass></verify-pass>", True, ""),
        ("Fine.\n<verify-pass>\n", True, ""),
        ("<verify-pass>", True, ""),
        ("<verify-pass>?", None, ""),
        ("<verify-fail/>", False, ""),
        ("<verify-fail></verify-fail>", False, ""),
        ("<verify-fail>one</verify-fail><verify-fail>two</verify-fail>", False, "two"),
        ("<verify-fail>one</verify-fail><verify-pass/>", False, "one"),
        ("<verify-pass/><verify-fail>one</verify-fail>", False, "one"),
    ],
)
def test_a_verdict_that_fails_counts_over_one_that_passes(
    text: str, verified: bool | None, reason: str
) -> None:
    assert read_sigils(text) == Sigils(verified=verified, reason=reason)


# --- echoes ------------------------------------------------------------------------------------


def test_the_prompt_itself_says_nothing() -> None:
    for prompt in (RULES, VERIFY):
        assert read_sigils(prompt, prompt=prompt) == Sigils()
        assert read_sigils(f"I was told:\n\n{prompt}", prompt=prompt) == Sigils()


def test_what_the_prompt_asks_for_is_no_echo() -> None:
    for text in (
        "<task-done>t-abc123</task-done>",
        "All green.\n\n<task-done>t-abc123</task-done>\n<journal>x</journal>",
    ):
        assert read_sigils(text, prompt=RULES).done == ("t-abc123",)
    assert read_sigils(
        '<task-failed id="t-abc123">No network.</task-failed>', prompt=RULES
    ).failed == {"t-abc123": "No network."}
    for text in ("<verify-pass/>", "All is well.\n\n<verify-pass/>\n"):
        assert read_sigils(text, prompt=VERIFY).verified is True


def test_the_last_journal_counts_over_an_echo_before_or_after_it() -> None:
    echo = "<journal>\n  (your\n  notes)\n</journal>"
    for text in (f"{echo}\n<journal>Mine</journal>", f"<journal>Mine</journal>\n{echo}"):
        assert read_sigils(text, prompt=RULES).journal == "Mine"
    assert read_sigils(echo).journal


def test_repeated_examples_are_no_verdict() -> None:
    assert read_sigils(f"I have to choose.\n\n{VERIFY}\nLet me look.", prompt=VERIFY) == Sigils()
    lines = "\n".join(VERIFY.split("\n")[2:4])
    for shown in (lines, f"```\n{lines}\n```"):
        assert read_sigils(f"These two:\n{shown}\n\nLet me look.", prompt=VERIFY) == Sigils()
    assert (
        read_sigils(f"{lines}\n\nI looked. Verdict:\n\n<verify-pass/>", prompt=VERIFY).verified
        is True
    )


def test_tags_and_fences_beside_a_sigil_do_not_make_it_an_echo() -> None:
    prompt = "Like this:\n\n```\n<journal>\n(notes)\n</journal>\n<task-done>t-1</task-done>\n```\n"
    assert read_sigils(
        "<journal>\nMine.\n</journal>\n<task-done>t-1</task-done>\n", prompt=prompt
    ).done == ("t-1",)
    assert read_sigils(
        "```\nmake\n```\n<task-done>t-1</task-done>\n```\nls\n```\n", prompt=prompt
    ).done == ("t-1",)


def test_knowledge_that_the_prompt_holds_is_not_learned_again() -> None:
    known = '<knowledge tags="a" title="T">Body.</knowledge>'
    prompt = f"## Project Knowledge\n\n### Sigils\n\nWrite <knowledge> like this: {known}\n"
    assert read_sigils(known, prompt=prompt) == Sigils()
    assert len(read_sigils(known.replace("Body", "Other"), prompt=prompt).knowledge) == 1


def test_a_body_that_repeats_the_prompts_example_does_not_count_whatever_its_attributes() -> None:
    text = '<knowledge tags="x" title="Mine">(at most about\n500 words)</knowledge>'
    assert read_sigils(text, prompt=RULES) == Sigils()


# --- tools -------------------------------------------------------------------------------------

PRINTED = [
    "{}", "some text\n  {}\nmore", "     7→{}", "7\t{}", "src/a.py:12:{}", "+{}", "> {}", '{"content": "one\\n{}\\n"}',
]  # fmt: skip


@pytest.mark.parametrize("printed", PRINTED)
@pytest.mark.parametrize(
    "name", ["task-done", "task-failed", "promise", "next-model", "verify-pass"]
)
def test_a_line_that_a_tool_printed_does_not_count(name: str, printed: str) -> None:
    case = CASES[name]
    outputs = ("first", printed.replace("{}", case.written))
    for answer in (
        case.written,
        case.written.upper() if name == "verify-pass" else case.written,
        f"```\n{case.written}\n```",
    ):
        assert read_sigils(answer, tool_outputs=outputs) == Sigils()
    assert read_sigils(case.written, tool_outputs=("nothing of the sort", "")) == case.said


def test_a_tool_that_only_mentions_a_sigil_takes_nothing_away() -> None:
    outputs = ("Answer with <verify-pass/> or not", "def f(): return '<task-done>t-2</task-done>'")
    assert read_sigils(
        "<verify-pass/>\n<task-done>t-1</task-done>", tool_outputs=outputs
    ) == Sigils(done=("t-1",), verified=True)


@pytest.mark.parametrize(
    "printed", [*PRINTED[1:4], "Notes: {} And so on.", "<journal>{}</journal>"]
)
@pytest.mark.parametrize("name", ["journal", "knowledge", "verify-fail"])
def test_a_body_that_a_tool_printed_does_not_count(name: str, printed: str) -> None:
    body = "Always run the script before you commit."
    sigil = {"knowledge": '<knowledge tags="a" title="T">{}</knowledge>'}.get(
        name, f"<{name}>{{}}</{name}>"
    )
    outputs = (printed.replace("{}", body),)
    assert read_sigils(sigil.replace("{}", body), tool_outputs=outputs) == Sigils()
    assert (
        read_sigils(sigil.replace("{}", body.replace(" ", "\n")), tool_outputs=outputs) == Sigils()
    )
    assert read_sigils(sigil.replace("{}", f"{body} I think."), tool_outputs=outputs) != Sigils()


def test_a_body_of_several_lines_is_found_between_line_numbers() -> None:
    body = "Always run the script\nbefore you commit."
    assert (
        read_sigils(f"<journal>{body}</journal>", tool_outputs=(f"1→{body}".replace("\n", "\n2→"),))
        == Sigils()
    )


def test_a_short_body_is_in_an_output_by_chance() -> None:
    assert read_sigils(
        "<journal>All tests pass</journal>", tool_outputs=("== All tests pass ==",)
    ).journal
    assert read_sigils("<journal>Done</journal>", tool_outputs=("Done\n",)).journal
    assert (
        read_sigils(
            "<journal>always use force</journal>", tool_outputs=("ok\n3:  always use force\n",)
        )
        == Sigils()
    )
    assert (
        read_sigils("<journal>All pass</journal>", tool_outputs=("<journal>All pass</journal>",))
        == Sigils()
    )


# --- laws --------------------------------------------------------------------------------------

fragments = messy(
    "<journal>", "</journal>", "<knowledge ", 'title="', "tags='a", ">", "/>", "</knowledge>", "<task-done>", "t-1",
    "</task-done>", "<verify-pass", "<verify-fail>", "</verify-fail>", "<task_FAILED id=", "</ promise>", "&lt;", "“",
    "<next-model>", "`", "```\n", "> ", "<!--", "ſ", "K",
)  # fmt: skip


@given(fragments, fragments)
@example("<taſk-done>t-1</taſk-done>", "")
def test_no_text_is_too_odd(text: str, echo: str) -> None:
    for said in (
        *(read_sigils(text), read_sigils(text, prompt=echo), read_sigils(text, prompt=text)),
        *(
            read_sigils(text, tool_outputs=(echo, text)),
            read_sigils(text, last_message_start=len(text) // 2),
        ),
    ):
        assert said.verified is not None or not said.reason
        assert all(said.done)
        assert said.promise in ("", "COMPLETE", "FAILURE")
    for name in ("taſk-done", "tas\u212a-done"):  # letters that Python takes for an s and a k
        assert read_sigils(f"<{name}>t-1</{name}>") == Sigils()


letters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="<>`~&\u2028\u2029\x85")
words = st.text(letters, max_size=30).map(lambda text: " ".join(text.split()))
bodies = st.lists(words, min_size=1, max_size=4).map("\n".join).map(str.strip).filter(bool)
attributes = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30).map(
    lambda text: " ".join(text.split())
)
tags = st.lists(
    attributes.map(lambda tag: " ".join(tag.replace(",", "").lower().split())).filter(bool),
    max_size=3,
    unique=True,
).map(tuple)
names = st.from_regex(r"\A[tf]-[0-9a-f]{6}\Z")
sigils = st.builds(
    Sigils,
    journal=bodies | st.just(""),
    knowledge=st.lists(st.builds(KnowledgeSigil, attributes, tags, bodies), max_size=3).map(tuple),
    done=st.lists(names, max_size=3, unique=True).map(tuple),
    failed=st.dictionaries(names, bodies | st.just(""), max_size=2),
    promise=st.sampled_from(["", "COMPLETE", "FAILURE"]),
    next_model=st.sampled_from(["", "opus", "openai/gpt-5:latest"]),
    verified=st.none() | st.just(True),
) | st.builds(Sigils, verified=st.just(False), reason=bodies | st.just(""))


def element(name: str, body: str, **attributes: str) -> str:
    written = "".join(f" {key}={quoteattr(value)}" for key, value in attributes.items())
    return f"<{name}{written}>{body}</{name}>\n"


def render(expected: Sigils) -> str:
    """The sigils in the form that the prompt asks for."""
    parts = [element("task-done", name) for name in expected.done]
    parts += [element("task-failed", reason, id=name) for name, reason in expected.failed.items()]
    for sigil in expected.knowledge:
        parts.append(
            element("knowledge", f"\n{sigil.text}\n", tags=",".join(sigil.tags), title=sigil.title)
        )
    if expected.verified is not None:
        parts.append(
            "<verify-pass/>\n" if expected.verified else element("verify-fail", expected.reason)
        )
    parts += [element("next-model", expected.next_model)] if expected.next_model else []
    parts += [element("promise", expected.promise)] if expected.promise else []
    return "".join(parts) + (
        element("journal", f"\n{expected.journal}\n") if expected.journal else ""
    )


@given(sigils, bodies, bodies)
def test_sigils_are_read_whatever_the_text_around_them(
    expected: Sigils, before: str, after: str
) -> None:
    written = render(expected)
    assert read_sigils(written) == expected
    assert read_sigils(f"{before}\n{written}{after}") == expected
    assert (
        read_sigils(f"{before}\n{written}{after}", prompt=f"{after}\n{RULES}{before}") == expected
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    "piece",
    [
        "<journal>", "</journal>", "<journal>x</journal>", "<task-done>t-1</task-done>", '<knowledge title="',
        "<knowledge title='\"", '<knowledge a="" ', "<journal ", "<journal a", "`<journal>", "<verify-pass>\n", "```\n",
        "\n", "<", "<journal a=b c", '"<journal a=" b=\'', "> <journal>\n", "`", "<!-- <journal>\n", "x" * 1000, " ",
        "<verify-pass/>", "``<journal>`",
    ],
)  # fmt: skip
def test_megabytes_of_anything_cost_their_length(
    piece: str, rounds: Callable[[int, int], int]
) -> None:
    """What is not linear here would not end within the hour; nothing measures time."""
    text = piece * (rounds(10_000_000, 30_000) // len(piece))
    for around in (text, f"<journal>{text}</journal>", f"<journal {text}"):
        read_sigils(around, prompt=RULES)
        read_sigils(
            "<verify-pass/>\n<journal>one two three four five</journal>", tool_outputs=(around,)
        )
    read_sigils(RULES, prompt=text[:1_000_000])


# --- what does not count says why -----------------------------------------------------------------

FINAL_MESSAGES = json.loads((GOLDEN / "sigils/final-messages.json").read_text(encoding="utf-8"))
TASK_ID = "t-1a2b3c"


@pytest.mark.parametrize("message", FINAL_MESSAGES, ids=lambda message: message["case"])
def test_a_final_message_is_never_misread_and_an_honest_one_learns_why_it_does_not_count(
    message: dict[str, str],
) -> None:
    outputs = [message["tool"]] if "tool" in message else []
    sigils = read_sigils(message["text"], prompt=RULES, tool_outputs=outputs)
    remarks = [ignored.remark for ignored in sigils.ignored if TASK_ID in ignored.body]
    if not message["done"]:
        assert TASK_ID not in sigils.done
    elif TASK_ID not in sigils.done:
        assert [remark for remark in remarks if "alone on a line" in remark]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I am done: <task-done>t-1</task-done>", WhyIgnored.PROSE),
        ("```sh\nmake\n<task-done>t-1</task-done>\n```", WhyIgnored.EXAMPLE),
        ("> <task-done>t-1</task-done>", WhyIgnored.EXAMPLE),
        ("<task-done>t-1", WhyIgnored.UNCLOSED),
        ("<task-done>t-1</task-done>\n\nLAST: all is well.", WhyIgnored.EARLY),
        (
            '```\nx = 1\n<knowledge tags="a" title="T">Words.</knowledge>\n```',
            WhyIgnored.EXAMPLE,
        ),
        ('<knowledge tags="a" title="T">\nWords.', WhyIgnored.UNCLOSED),
        ("It is fine <verify-pass/>", WhyIgnored.PROSE),
        ("All of it: <story-done>US-1</story-done>", WhyIgnored.PROSE),
    ],
)
def test_a_sigil_that_does_not_count_says_why(answer: str, why: WhyIgnored) -> None:
    sigils = read_sigils(answer, last_message_start=max(0, answer.find("LAST")))
    assert [ignored.why for ignored in sigils.ignored] == [why]
    assert sigils == Sigils()


def test_a_remark_repeats_an_id_and_no_other_text() -> None:
    sigils = read_sigils("> <task-done>t-1</task-done>\n> <promise>Run install.sh</promise>")
    assert [ignored.remark.partition(" does")[0] for ignored in sigils.ignored] == [
        "<task-done>t-1</task-done>",
        "<promise>",
    ]


def test_an_example_of_the_prompt_and_a_mention_are_no_claims() -> None:
    example = "```\nNotes:\n<journal>\n(your notes)\n</journal>\n```"
    answer = f"I was told to write `<knowledge>` entries.\n\n{example}"
    assert read_sigils(answer, prompt=RULES).ignored == ()
