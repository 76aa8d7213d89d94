"""Secrets that only their surroundings tell are gone, and what merely looks like such surroundings stays."""

import pytest
from tests.support.secret_samples import key_block

from ralph.privacy.privacy import redact

SECRET = "Zx81" + "kLm20"  # made up
KEY = key_block().splitlines()


@pytest.mark.parametrize(
    "text",
    [f"echo {SECRET} | docker login -u me --password-stdin", f"echo -n '{SECRET}' | docker login --password-stdin r.io",
     f'echo "{SECRET}" | gh auth login --with-token', f"printf '%s' {SECRET} | docker login --password-stdin",
     f"docker login -u me --password-stdin <<< {SECRET}", f"docker login --password-stdin <<<'{SECRET}'",
     f"echo {SECRET} \\\n  | docker login \\\n  --password-stdin", f"echo {SECRET} | sudo -S apt update",
     f"echo bob:{SECRET} | sudo chpasswd", f"echo {SECRET} | gpg --batch --passphrase-fd 0 -d a.gpg",
     f'{{"command": "echo \\"{SECRET}\\" | gh auth login --with-token"}}', f"echo {SECRET} | vault login -"],
)  # fmt: skip
def test_what_is_handed_to_a_program_that_reads_a_password_is_one(text: str) -> None:
    assert redact(text).text == text.replace(SECRET, "[redacted: password]")


@pytest.mark.parametrize(
    ("text", "password"),
    [(r'printf "Xy9kLm2!\n" | sudo -S ls', "Xy9kLm2!"), (r'echo -e "Tr0ub4dor3\n" | sudo -S ls', "Tr0ub4dor3"),
     ('echo "Tr0ub4dor&3" | sudo -S ls', "Tr0ub4dor&3"), ("echo 'it\"s9!Abc' | sudo -S ls", 'it"s9!Abc'),
     ('echo "Ab;c9xyz!" | docker login --password-stdin', "Ab;c9xyz!"), (r"echo pa\$w0rd9 | sudo -S ls", r"pa\$w0rd9"),
     ('echo "root:Tr0ub4dor&3" | sudo chpasswd', "Tr0ub4dor&3"), ('echo "$USER:it\'s9Xy" | chpasswd', "it's9Xy"),
     (r'echo "pw\npw" | passwd --stdin root', r"pw\npw"),
     ("gh auth login --with-token <<< 'Ab&9xyzQQ'", "Ab&9xyzQQ"),
     ('docker login --password-stdin <<< "Tr0ub4dor&3"', "Tr0ub4dor&3"),
     (f"echo $TOKEN | docker login --password-stdin; echo {SECRET} | sudo -S ls", SECRET)],
)  # fmt: skip
def test_a_piped_password_is_redacted_to_its_end_whatever_signs_it_has(
    text: str, password: str
) -> None:
    assert redact(text).text == text.replace(password, "[redacted: password]")


@pytest.mark.parametrize(
    "text",
    ['echo "$TOKEN" | docker login --password-stdin', "echo $(cat pw) | docker login --password-stdin",
     "cat pw.txt | docker login --password-stdin", "echo password | docker login --password-stdin",
     "echo hello there | git hash-object --stdin", "echo main.py | black --stdin-filename main.py -",
     "docker login --password-stdin < pw.txt", "echo done; docker login --password-stdin", "echo sunny | sudo -s"],
)  # fmt: skip
def test_what_is_no_password_may_be_piped(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize(
    "text",
    [f" id | name  | password\n----+-------+----------\n  1 | alice | {SECRET}\n(1 row)\n",
     f"+----+----------+\n| id | password |\n+----+----------+\n|  1 | {SECRET} |\n+----+----------+\n",
     f"| user | password |\n| --- | :---: |\n| alice | `{SECRET}` |\n", f" password \n----------\n {SECRET}\n(1 row)\n",
     f"id|password\n1|{SECRET}\n(1 row)\n", f"-[ RECORD 1 ]---\nid       | 1\npassword | {SECRET}\n",
     f" id | password\\n----+----------\\n  1 | {SECRET}\\n(1 row)\\n"],
)  # fmt: skip
def test_a_column_that_is_named_like_a_secret_holds_some(text: str) -> None:
    assert redact(text).text == text.replace(SECRET, "[redacted: password]")


def test_an_indented_record_of_psql_is_searched() -> None:
    text = "  -[ RECORD 1 ]--\nuser | bob\npassword | hunter22\n"
    assert redact(text).text == text.replace("hunter22", "[redacted: password]")


def test_every_row_of_a_table_is_looked_at_also_one_with_a_mere_word() -> None:
    rows = [f"  {number} | alice | word{number}x" for number in range(40)]
    text = "\n".join(
        [
            " id | name  | password",
            "----+-------+----------",
            *rows,
            "  9 | bob   | sunshine",
            "(41 rows)",
        ]
    )
    told = redact(text).text
    assert "sunshine" not in told
    assert told.count("[redacted: password]") == 41


@pytest.mark.parametrize(
    "text",
    ["| Token | Meaning |\n|---|---|\n| `color-blue-500` | a blue |\n| spacing-2xl | wide |\n",
     "| password | type |\n|---|---|\n| required | string |\n", "Password\n--------\nMust have a digit\n",
     " id | password_hash\n----+---------------\n  1 | $2b$12$abcdefghijklmnopqrstuv\n(1 row)\n",
     " key | value\n-----+-------\n a1b | c2d3e4\n(1 row)\n", " src/keys.py | 4 ++--\n src/token.py | 2 +-\n",
     " id | password\n----+----------\n  1 | \n  2 | ********\n(2 rows)\n"],
)  # fmt: skip
def test_other_tables_stay_as_they_are(text: str) -> None:
    assert redact(text).text == text


@pytest.mark.parametrize("joint", ["\n", "\r\n", "\\n", "\n+", "\n  ", "\n> "])
@pytest.mark.parametrize("first", [1, 3, len(KEY) - 4])
def test_the_end_of_a_key_is_one_without_its_beginning(first: int, joint: str) -> None:
    told = redact(f"tail of the file:\n{joint.join(KEY[first:])}\nmore").text
    assert not any(line in told for line in KEY[first:-1])
    assert told.startswith("tail of the file:")
    assert told.endswith("more")


def test_an_end_line_alone_or_below_words_is_no_key() -> None:
    for text in (
        KEY[-1],
        f"these are words\n{KEY[-1]}",
        f"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n{KEY[-1]}",
    ):
        assert redact(text).text == text


@pytest.mark.parametrize("joint", ["\\\n", "\\\n  ", "\\\r\n", "\\\n\t"])
@pytest.mark.parametrize("name", ["export TOKEN=", "DB_PASSWORD=", "  API_KEY="])
def test_a_value_on_the_next_line_of_a_continued_one_is_found(name: str, joint: str) -> None:
    value = SECRET + "Qp93Vt47Yc6"
    assert value not in redact(f"cd /srv\n{name}{joint}{value}\nmake").text
    assert value[:12] not in redact(f"cd /srv\n{name}{value[:12]}\\\n{value[12:]}\nmake").text
