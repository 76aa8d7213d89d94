"""What is private never gets out, what is secret is named and not shown, and the rest stays as it was."""

import re
import sys
from types import FrameType, SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.sampling import every, examples
from tests.support.secret_samples import HUMAN_PASSWORDS, TOKENS, key_block

from ralph.core.errors import ConfigError
from ralph.privacy import secret_phrases
from ralph.privacy.privacy import find_secrets, redact, strip_private
from ralph.privacy.word_splitters import lowercase

SECRET_WORD = "marmalade"
OPENING = ["<private>", "<PRIVATE>", "<Private >", "< private>", '<private reason="a">', "<private\n>",
           "\\u003cprivate\\u003e",
           "\\u003CPrivate\\u003E", "\\\\u003cprivate\\\\u003e", "&lt;private&gt;", "&#60;private&#62;",
           "&amp;lt;private&amp;gt;",
           "<private\\u003e", "&lt;private>", "%3Cprivate%3E", "\\x3cprivate\\x3e",
           '&lt;private why=\\"b\\"&gt;', "＜private＞", "﹤private﹥", "<\u200bprivate>", "<pri\u200cva\u200dte>",
           "<\u2060private>", "<priv\ufeffate>", "<priv\u00adate>", "<prıvate>", "<PRİVATE>", "<ＰＲＩＶＡＴＥ>",
           "<pri\x1b[1mvate>", "<private\u200b>",
           "<priv\rate>", "<priv\x00ate>", "<\\u200bprivate>", "<\x1b]8;;x\x07private>"]  # fmt: skip
CLOSING = ["</private>", "</PRIVATE>", "</ private >", "< /private>", "<\\/private>", "\\u003c/private\\u003e",
           "&lt;/private&gt;",
           "\\u003c\\/private\\u003e", "\\u003c\\u002fprivate\\u003e", "</private\\u003e", "%3C%2Fprivate%3E",
           "</private\n>", "＜/private＞", "<／private>", "</pri\u200bvate>", "<\u00ad/\ufeffprivate>",
           "</prıvate>"]  # fmt: skip

_EVERY_TOKEN = [token for tokens in TOKENS.values() for token in tokens]
_PIECES = st.one_of(
    st.sampled_from(OPENING + CLOSING),
    st.sampled_from(["<", ">", "/", "\\", "&lt;", "&gt;", "private", "pri", "vate", "<pri", "vate>", " ",
                     "\n", "[redacted: x]",
                     "password", "PASSWORD=", "token: ", '"', "'", "=", ":", "@", "://",
                     "-----BEGIN PRIVATE KEY-----", "api_key",
                     "Bearer ", "export ", "--password ", "[redacted: ", "]", "eyJ", ".", "sk-", "value", ",",
                     "\ud800", "İ", "\u200b", "\u00ad", "\x1b[1m", "\x1b[>1m", "\x1b]8;;x", "\x07", "\x1b\\", "\x1bP",
                     "\x1b", "\r", "\\\n", "\ufeff", "[32m", "＜", "＞", "ı", "| password |\n|---|\n| ", "(1 row)",
                     " | sudo -S", "echo ",
                     "-----END PRIVATE KEY-----", "\\u200b", "^[[1m", "A1b2C3d4E5f6G7h8"]),
    st.sampled_from(_EVERY_TOKEN),
    st.sampled_from(HUMAN_PASSWORDS),
    st.text(max_size=8),
)  # fmt: skip
TEXTS = st.lists(_PIECES, max_size=24).map("".join)
OUTSIDE = st.text(alphabet=st.characters(blacklist_characters="<>&\\%")).map(
    lambda text: text.replace(SECRET_WORD, "")
)


@for_each("opening", OPENING)
@for_each("closing", CLOSING)
def test_a_private_part_is_cut_out_however_its_tags_are_written(opening: str, closing: str) -> None:
    assert strip_private(f"before {opening}{SECRET_WORD}{closing} after") == ("before  after", 1)


@pytest.mark.parametrize("opening", OPENING)
def test_an_unclosed_private_part_goes_to_the_end(opening: str) -> None:
    assert strip_private(f"before {opening}{SECRET_WORD}\nand more") == ("before ", 1)


@pytest.mark.parametrize("closing", CLOSING)
def test_a_stray_closing_tag_is_removed_and_hides_nothing(closing: str) -> None:
    assert strip_private(f"before {closing}after") == ("before after", 0)


def test_nested_private_parts_are_one() -> None:
    assert strip_private("a<private>b<private>c</private>d</private>e<private>f</private>g") == (
        "aeg",
        2,
    )
    assert strip_private("a<private>b<private>c</private>d") == ("a", 1)


def test_an_empty_tag_hides_nothing_unless_something_closes_it() -> None:
    assert strip_private("a<private/>b<private />c") == ("abc", 0)
    assert strip_private(f"a<private/>{SECRET_WORD}</private>c") == ("ac", 1)


def test_halves_of_a_tag_that_meet_hide_the_rest() -> None:
    assert strip_private(f"a<pri<private>x</private>vate>{SECRET_WORD}") == ("a", 2)


@pytest.mark.parametrize(
    "text",
    ["", "private", "a private <b> part", "<privateer>x</privateer>", "<private_key>x</private_key>",
     "<private", "private: true",
     "the <private tag " + "is long " * 200 + ">", "x < private && y"],
)  # fmt: skip
def test_text_without_a_tag_is_returned_as_it_is(text: str) -> None:
    assert strip_private(text) == (text, 0)


@given(st.text())
def test_any_text_without_the_word_is_returned_unchanged(text: str) -> None:
    if "private" not in text.lower():
        assert strip_private(text)[0] == text


@given(OUTSIDE, st.sampled_from(OPENING), TEXTS, TEXTS, st.sampled_from(CLOSING), OUTSIDE)
def test_nothing_inside_of_a_private_part_survives(
    before: str, opening: str, first: str, second: str, closing: str, after: str
) -> None:
    inside = first + SECRET_WORD + second
    for tag in CLOSING:  # the part must still be open where the word stands
        inside = inside.replace(tag, "")
    if strip_private(opening + inside) == ("", 1):
        assert SECRET_WORD not in strip_private(f"{before}{opening}{inside}{closing}{after}")[0]
        assert SECRET_WORD not in redact(f"{before}{opening}{inside}{closing}{after}").text


@given(TEXTS)
def test_stripping_twice_is_stripping_once(text: str) -> None:
    once = strip_private(text)[0]
    assert strip_private(once) == (once, 0)


@settings(max_examples=examples(300, 25))
@given(TEXTS)
def test_redacting_twice_is_redacting_once_and_leaves_no_finding(text: str) -> None:
    clean = redact(text)
    again = redact(clean.text)
    assert (again.text, again.findings, again.private) == (clean.text, (), 0)
    assert find_secrets(clean.text) == ()


PATTERNS = [
    r"\w+",
    r"[a-z]",
    r"(?<!y)y",
    r"redacted",
    r".",
    r"(?s).+",
    r"x*",
    r"\]",
    r"^a",
    r"ACME-\d{4}",
]


@given(TEXTS, st.lists(st.sampled_from(PATTERNS), max_size=3))
def test_the_users_patterns_never_touch_what_was_redacted(text: str, patterns: list[str]) -> None:
    clean = redact(text, patterns)
    assert redact(clean.text, patterns).text == clean.text


@given(TEXTS)
def test_findings_are_sorted_apart_from_each_other_and_on_the_right_line(text: str) -> None:
    at = 0
    for finding in find_secrets(text):
        assert at <= finding.start < finding.end <= len(text)
        assert finding.line == text.count("\n", 0, finding.start) + 1
        at = finding.end


@given(
    st.sampled_from(_EVERY_TOKEN),
    st.sampled_from([" ", "\n", "(", '"', "'", "=", "/", "\\n", "<b>", "【"]),
)
def test_a_token_never_survives_whatever_stands_around_it(token: str, sign: str) -> None:
    assert (
        token
        not in redact(
            f"some text {sign}{token}{sign.replace('=', ' ').replace('/', ' ')} and more"
        ).text
    )


def test_a_finding_tells_kind_and_place_but_not_the_secret() -> None:
    text = "first\nPASSWORD=hunter2!x9\n"
    (finding,) = find_secrets(text)
    assert (finding.kind, finding.start, finding.end, finding.line) == ("password", 15, 25, 2)
    assert "hunter2" not in repr(redact(text))


def test_findings_stand_where_they_stood_in_the_text_without_its_private_parts() -> None:
    clean = redact("a<private>b</private>\nPASSWORD=hunter2!x9")
    assert (clean.text, clean.private) == ("a\nPASSWORD=[redacted: password]", 1)
    assert [(each.kind, each.start, each.end, each.line) for each in clean.findings] == [
        ("password", 11, 21, 2)
    ]


def test_what_overlaps_is_one_finding_with_the_most_telling_name() -> None:
    token = TOKENS["github token"][0]
    assert redact(f"GITHUB_TOKEN={token}").text == "GITHUB_TOKEN=[redacted: github token]"
    assert (
        redact(f"https://me:{token}@github.com").text
        == "https://me:[redacted: github token]@github.com"
    )


def test_the_users_own_patterns_are_custom_findings() -> None:
    clean = redact("ticket ACME-1234 and ACME-99", [r"ACME-\d{4}"])
    assert clean.text == "ticket [redacted: custom] and ACME-99"
    assert [finding.kind for finding in clean.findings] == ["custom"]


def test_a_pattern_that_looks_at_its_neighbours_is_applied_until_nothing_is_left() -> None:
    clean = redact("kab", ["k", "(?<!k)a"])
    assert clean.text == "[redacted: custom][redacted: custom]b"
    assert [(finding.start, finding.end) for finding in clean.findings] == [(0, 1), (1, 2)]


def test_a_wrong_pattern_is_a_config_error_that_names_it() -> None:
    with pytest.raises(
        ConfigError, match=r"privacy\.patterns: '\(' is not a regular expression"
    ) as caught:
        redact("x", ["("])
    assert caught.value.hint


def test_several_secrets_of_all_sorts_in_one_text() -> None:
    text = f"""# notes
DB_URL=postgres://app:hunter2@db/x
{key_block()}
<private>the cat is called Tom</private>
"""
    assert (
        redact(text).text
        == "# notes\nDB_URL=postgres://app:[redacted: connection string]@db/x\n[redacted: private key]\n\n"
    )


def test_lone_surrogates_and_odd_characters_do_no_harm() -> None:
    text = "\ud800 PASSWORD=hunter2!x9 \udfff İ\x00\u2028 <private>\ud800</private>"
    assert redact(text).text == "\ud800 PASSWORD=[redacted: password] \udfff İ\x00\u2028 "


def test_lower_case_keeps_every_character_in_its_place() -> None:
    for code in range(sys.maxunicode + 1):
        assert len(lowercase(chr(code))) == 1


HOSTILE = ["a", "<private>", "&lt;private ", "</private>", "eyJ", "eyJabcdefghij.", "password=", 'password="',
           "token", "sk-", "://a:b",
           "\\", "bearer ", "curl -u ", "cookie: ", "[redacted: x]", "-----BEGIN PRIVATE KEY-----\n", "M",
           "glpat-a.", " login x",
           'token","value', "key  ", "IQoJb3JpZ2lu/", "<pri", "-", "=", "A1b2+/", "PASSWORD=hunter2!x9 ",
           "token:", 'api_key="', "://u:p@", "-----BEGIN ", "Authorization: Bearer ", "eyJ.", "ghp_", '"', "'",
           "`", "<private ", "비밀번호=", "PASSWORD=hunter2!x9 [redacted: x] ", "user=a password=hunter2 ",
           "postgres://a:", "password=\\", "DB_PASSWORD=rootpw\n", "\u200b", "gh\u200bp_", "\x1b[32mtoken=",
           "\x1b]8;;a", "\x9d", "\x1bP", "\r", "token=\\\n", "echo a | sudo -S ", "| password |\n|---|\n",
           "| a | token |\n|---|---|\n| x | y9Zk2 |\n", "-----END PRIVATE KEY-----\n",
           "MIIEvQIBADANBgkqhkiG9w0B\n-----END PRIVATE KEY-----\n", "password\n-----\n", "a|b\n(1 row)\n",
           "-[ RECORD 1 ]---\npassword | x\n", "＜private", "private ", "\\\n", "^[[1m", "with-token ", "token for ",
           "pwd ", 'value": "', '"value": "abcdef", "name": "x" ', "insert into x (password) values ('a',", '"a" + ',
           "kind: secret\n a: abcdefgh\n", "as the password ", "PASSWORD = os.getenv(\"A\", ", "NAME  PASS\nx  y\n",
           "user,password\nx,y\na,b,token\n1,2,3\n", "[-a-]{+b+}", "AK" + "IA2QWERT7YUIOPLKJH ", "snmpwalk -c ",
           "password: |\n ", "create user x ", "bitlocker", "reset it to x"]  # fmt: skip


def calls_made(text: str) -> int:
    """How many functions, built-in ones too, are called to redact a text: a count of the work, whatever the machine."""
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        redact(text)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("piece", every(HOSTILE, 5))
def test_four_times_the_text_is_at_most_four_times_the_work(piece: str) -> None:
    times = 4_000 // len(piece)
    redact(piece * times)  # what is compiled or remembered once counts for neither
    small, large = calls_made(piece * times), calls_made(piece * times * 4)
    assert large <= 4.4 * small + 200


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.soak
def test_a_long_text_of_one_piece_comes_to_an_end_and_is_clean(piece: str) -> None:
    # The count above does not see inside of a regular expression; a quadratic one would not end here.
    text = piece * (200_000 // len(piece))
    clean = redact(text)
    assert find_secrets(clean.text) == ()


def test_a_value_that_comes_again_is_judged_once() -> None:
    text = "password=" * 2_000
    redact(text)
    assert calls_made(text) < 160 * 2_000


def test_no_part_of_a_line_is_searched_twice_for_the_same_receiver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[int, int]] = []

    class Regex:
        def __init__(self, pattern: str) -> None:
            self.match = re.compile(pattern).match

        def finditer(self, _text: str, start: int, end: int) -> list[re.Match[str]]:
            searched.append((start, end))
            return []

    text = "with-token " * 100
    monkeypatch.setattr(secret_phrases, "re", SimpleNamespace(compile=Regex))
    assert list(secret_phrases.phrase_secrets(text, text)) == []
    assert len(searched) == 100
    assert sum(end - start for start, end in searched) <= len(text)


def test_a_marker_is_found_among_many_without_asking_each() -> None:
    text = "[redacted: x] " * 500 + "PASSWORD=hunter2!x9\n" * 500
    redact(text)
    assert calls_made(text * 2) < 2.2 * calls_made(text) + 200


def test_a_long_line_with_one_secret_in_it_is_searched_to_its_end() -> None:
    text = "x = 1; " * 100_000 + "PASSWORD=hunter2!x9" + " y" * 100_000
    (finding,) = redact(text).findings
    assert finding.kind == "password"
