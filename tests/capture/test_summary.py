"""A session in a few lines: what is taken from where, what counts as resolved, and what a budget leaves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ralph.capture.events import Event, EventKind
from ralph.capture.host_payloads import event_of
from ralph.capture.pipeline import observe
from ralph.capture.summary import Summary, summary, text
from ralph.core import tokens
from ralph.core.record import Family, ObservationKind, Origin, Record

AT = "2026-11-15T10:00:00Z"


def seen(
    kind: ObservationKind,
    words: str = "",
    *,
    by: str = "tool",
    files: tuple[str, ...] = (),
    session: str = "s1",
    task: str = "",
    **extra: object,
) -> Record:
    """One observation as capture makes it."""
    origin = Origin(by=by, session=session, files=files, task=task)
    return Record(
        "obs-1", kind, words, Family.OBSERVATION, origin=origin, created_at=AT, extra=extra
    )


def asked(words: str, **more: str) -> Record:
    return seen(ObservationKind.NOTE, words, by="human", **more)  # type: ignore[arg-type]  # only texts are passed


def answered(words: str, **extra: object) -> Record:
    return seen(ObservationKind.NOTE, words, by="agent", **extra)  # type: ignore[arg-type]  # as above


def edited(*files: str) -> Record:
    return seen(ObservationKind.TOOL_USE, files=files, tool="Edit")


def failed(command: str, words: str) -> Record:
    return seen(
        ObservationKind.ERROR, f"$ {command}\nexit code 1\n{words}", tool="Bash", command=command
    )


def passed(command: str) -> Record:
    return seen(ObservationKind.SUCCESS, f"$ {command}\nok", tool="Bash", command=command)


SESSION = [
    asked("Let users log in with JWT"),
    edited("src/auth/login.ts"),
    failed("npm test", "FAIL src/auth\nTypeError: jwt.sign is not a function"),
    edited("src/auth/token.ts"),
    edited("package.json"),
    passed("npm test"),
    failed("npm run lint", "src/auth/token.ts\n  3:1 error unused import"),
    answered(
        "Login works with JWT now.\n\nDetails follow.\n\nNext steps:\n- rotate the keys\n- write docs"
    ),
]


class TestWhatIsFound:
    def test_all_parts_of_a_session(self) -> None:
        found = summary(SESSION)
        assert found == Summary(
            goal="Let users log in with JWT",
            changed=("src/auth/login.ts", "src/auth/token.ts", "package.json"),
            resolved=("npm test; after editing src/auth/token.ts, package.json",),
            passed=("npm test",),
            state="Login works with JWT now.",
            open_ends=("npm run lint fails", "rotate the keys", "write docs"),
            errors=(
                "npm test: TypeError: jwt.sign is not a function",
                "npm run lint: 3:1 error unused import",
            ),
            tags=("auth", "login", "token"),
        )

    def test_nothing_gives_nothing(self) -> None:
        assert summary([]) == Summary()
        assert text(Summary(), 100, tokens.estimate) == ""

    def test_the_goal_is_the_first_prompt_that_is_more_than_a_slash_command(self) -> None:
        assert (
            summary([asked("/clear"), asked("fix the\n  build"), asked("and now?")]).goal
            == "fix the build"
        )
        assert summary([asked("/review")]).goal == "/review"

    @pytest.mark.parametrize(
        "greeting", ["hi", "Thanks!", "good morning :)", "guten Morgen", "ok, go on", "안녕!"]
    )
    def test_small_talk_is_not_a_goal_if_there_is_another(self, greeting: str) -> None:
        assert summary([asked(greeting), asked("fix the build")]).goal == "fix the build"
        assert summary([asked(greeting)]).goal == greeting

    @pytest.mark.parametrize(
        ("later", "cause"),
        [
            ("pytest -q", "on a later try, with nothing changed in between"),
            ("cd app && pytest -q", "on a later try, with nothing changed in between"),
            ("CI=1 pytest -q", "with CI=1"),
            ("pytest  -q 2>&1 | tail -20", "on a later try, with nothing changed in between"),
            ("cd a; X=1 Y=2 pytest -q", "with X=1 and with Y=2"),
        ],
    )
    def test_another_spelling_of_a_command_resolves_its_failure(
        self, later: str, cause: str
    ) -> None:
        found = summary([failed("pytest -q", "AssertionError: 1"), passed(later)])
        assert found.resolved == (f"pytest -q; {cause}",)
        assert found.open_ends == ()

    def test_a_command_that_fixed_a_failure_is_named_as_the_cause(self) -> None:
        found = summary(
            [
                failed("pytest -q", "ImportError: cannot import name 'notset'"),
                passed("pip install 'pytest<8.4'"),
                passed("pytest -q"),
            ]
        )
        assert found.resolved == ("pytest -q; after pip install 'pytest<8.4'",)

    def test_the_line_with_the_exception_is_preferred_to_the_name_of_the_file(self) -> None:
        output = "E   ImportError: cannot import name 'notset'\nERROR tests/test_cli.py"
        found = summary([failed("pytest -q", output)])
        assert found.errors == ("pytest -q: ImportError: cannot import name 'notset'",)

    def test_a_claim_that_something_was_stored_stands_next_to_the_refusal(self) -> None:
        refusal = seen(
            ObservationKind.ERROR,
            "Error: unknown argument 'content'",
            tool="mcp__ralph__memory_add",
        )
        found = summary([asked("store that"), refusal, answered("Stored as a fix.")])
        assert found.refused == ("Error: unknown argument 'content'",)
        assert "Not stored: Ralph refused it" in text(found, 0, tokens.estimate)

    @pytest.mark.parametrize(
        "other",
        [
            "uv run pytest -q",
            "python -m pytest --tb=short",
            "docker compose run --rm web pytest -q",
            "docker exec -u root web pytest",
            "cd app && .venv/bin/pytest -q -n 2 -p no:randomly | tail -3",
        ],
    )
    def test_spellings_of_a_command_are_open_once(self, other: str) -> None:
        records = [failed("pytest", "AssertionError: 1"), failed(other, "AssertionError: 1")]
        assert summary(records).open_ends == ("pytest fails",)
        assert summary([*records, passed(other)]).open_ends == ()

    def test_a_run_of_more_than_what_failed_resolves_it(self) -> None:
        failure = failed("pytest tests/api/test_login.py::test_token", "AssertionError: 1")
        assert summary([failure, passed("pytest tests/api")]).open_ends == ()
        assert summary([failure, passed("pytest tests/web")]).open_ends != ()

    @pytest.mark.parametrize(
        ("later", "is_open"),
        [
            (answered("All 63 tests pass now."), False),
            (asked("CI is green, thanks"), False),
            (answered("Alle Tests sind grün."), False),
            (answered("The tests still do not pass."), True),
            (answered("They should pass once the image exists."), True),
            (answered("Login works now."), True),
        ],
    )
    def test_a_later_message_that_says_so_resolves_a_failed_test(
        self, later: Record, is_open: bool
    ) -> None:
        found = summary([failed("pytest", "AssertionError: 1"), later])
        assert ("pytest fails" in found.open_ends) is is_open

    def test_an_answer_takes_the_place_of_a_failed_command_that_checks_nothing(self) -> None:
        push = failed("git commit -qm 'Fix it' && git push", "error: failed to push some refs")
        assert summary([push]).open_ends == ("git commit -qm 'Fix it' && git push fails",)
        assert summary([push, answered("Rebased and sent.")]).open_ends == ()

    def test_another_command_does_not(self) -> None:
        found = summary([failed("pytest -q", "AssertionError: 1"), passed("pytest -q tests/unit")])
        assert found.resolved == ()
        assert found.open_ends == ("pytest -q fails",)

    def test_a_command_that_passed_and_then_failed_is_open_and_not_passed(self) -> None:
        found = summary([passed("make"), failed("make", "make: *** [all] Error 2")])
        assert found.passed == ()
        assert found.open_ends == ("make fails",)

    def test_a_failure_that_went_away_by_itself_says_so(self) -> None:
        found = summary([failed("make", "cannot connect"), passed("make")])
        assert "on a later try, with nothing changed in between" in text(found, 0, tokens.estimate)

    def test_a_tool_that_failed_on_a_file_is_resolved_by_the_same_tool_on_it(self) -> None:
        wrong = seen(
            ObservationKind.ERROR, "String to replace not found", files=("a.py",), tool="Edit"
        )
        assert summary([wrong]).open_ends == ("Edit a.py fails",)
        assert summary([wrong]).changed == ()
        assert summary([wrong, edited("a.py")]).open_ends == ()

    @pytest.mark.parametrize(
        ("words", "line"),
        [
            (
                "Traceback (most recent call last):\n  File 'a'\nValueError: bad port",
                "ValueError: bad port",
            ),
            (
                "compiling\nerror[E0425]: cannot find value `x`\n",
                "error[E0425]: cannot find value `x`",
            ),
            (
                "reading\nls: cannot access '/x': No such file",
                "ls: cannot access '/x': No such file",
            ),
            ("just this", "just this"),
            ("", ""),
        ],
    )
    def test_the_line_of_an_error_that_says_most_is_taken(self, words: str, line: str) -> None:
        assert summary([failed("x", words)]).errors == ((f"x: {line}",) if line else ())

    def test_what_a_subagent_says_is_not_the_last_state(self) -> None:
        assert (
            summary([answered("All done."), answered("Found 3 files.", agent_id="a1")]).state
            == "All done."
        )

    def test_without_a_message_the_last_thing_that_happened_is_the_state(self) -> None:
        assert summary([asked("go"), passed("make")]).state == "success: make"
        assert summary([asked("go")]).state == ""

    @pytest.mark.parametrize(
        ("message", "ends"),
        [
            ("Done.\n- [ ] update the changelog", ("update the changelog",)),
            ("TODO: handle retries", ("TODO: handle retries",)),
            ("The cache is not yet invalidated.", ("The cache is not yet invalidated.",)),
            ("## Next steps\n\n1. deploy\n2. tell ops\n\nBye", ("deploy", "tell ops")),
            (
                "Enjoy! The work is uncommitted on `feat/timer`.",
                ("The work is uncommitted on `feat/timer`.",),
            ),
            ("0.7.0 in all three places. Not committed.", ("Not committed.",)),
            ("I haven't run it. Bye", ("I haven't run it.",)),
            ("Tests pass - not yet committed.", ("Tests pass - not yet committed.",)),
            ("It is pinned to 3. Still to do: docs", ("Still to do: docs",)),
            ("Bon courage ! Il manque l'index unique.", ("Il manque l'index unique.",)),
            ("Pushed. There is nothing uncommitted.", ()),
            ("Jobs are ordered by remaining time, which remains slow.", ()),
            ("Everything is done.", ()),
        ],
    )
    def test_open_ends_are_read_off_the_last_message(
        self, message: str, ends: tuple[str, ...]
    ) -> None:
        assert summary([answered(message)]).open_ends == ends

    def test_what_a_person_said_to_an_answer_stays_with_it_and_in_order(self) -> None:
        talk = [
            asked("Part numbers lose their zeros"),
            answered("I could quote every field. That is usual. Shall I?"),
            asked("No: pad them to 9 digits, and only in export_ledger."),
            answered("Shall I log it too?"),
            asked("as you like"),
            answered(
                f"{'It is done as you said. ' * 30}export_ledger pads to 9 digits. {'All is well. ' * 30}"
            ),
        ]
        found = text(summary(talk), 400, tokens.estimate)
        assert found.splitlines() == [
            "Goal: Part numbers lose their zeros",
            "Answered: I could quote every field. That is usual. Shall I?",
            "Asked: No: pad them to 9 digits, and only in export_ledger.",
            "Answered: Shall I log it too?",
            "Asked: as you like",
            next(line for line in found.splitlines() if line.startswith("Last: ")),
        ]
        assert "export_ledger pads to 9 digits" in found
        for budget in range(60, 200, 5):
            short = text(summary(talk), budget, tokens.estimate)
            assert short.count("Answered: ") == short.count("Asked: ")
            assert ("pad them" in short) >= ("as you like" in short)

    def test_tags_are_tasks_then_names_of_what_was_changed_and_no_generic_ones(self) -> None:
        records = [edited("src/index.ts"), edited("src/db/schema.ts"), edited("src/db/pool.ts")]
        records.append(seen(ObservationKind.TOOL_USE, task="t-42"))
        assert summary(records).tags == ("t-42", "db", "schema", "pool")

    def test_observations_as_capture_really_makes_them_are_understood(self) -> None:
        events = [
            Event(EventKind.USER_PROMPT_SUBMIT, "claude", "s1", prompt="make the tests pass"),
            event_of(
                "claude",
                "PostToolUseFailure",
                _bash("pytest", error="Exit code 1\nE   ValueError: no port"),
                AT,
            ),
            event_of(
                "claude",
                "PostToolUse",
                _payload("Edit", {"file_path": "/p/src/net.py", "new_string": "1"}),
                AT,
            ),
            event_of(
                "claude",
                "PostToolUse",
                _bash("pytest", tool_response={"stdout": "3 passed", "stderr": ""}),
                AT,
            ),
            event_of(
                "claude",
                "Stop",
                {"session_id": "s1", "cwd": "/p", "last_assistant_message": "All pass."},
                AT,
            ),
        ]
        records = [
            record
            for event in events
            if event is not None and (record := observe(event)) is not None
        ]
        assert summary(records) == Summary(
            goal="make the tests pass",
            changed=("src/net.py",),
            resolved=("pytest; after editing src/net.py",),
            passed=("pytest",),
            state="All pass.",
            errors=("pytest: ValueError: no port",),
            tags=("net",),
        )


def _payload(tool: str, parameters: dict[str, object], **more: object) -> dict[str, object]:
    return {"session_id": "s1", "cwd": "/p", "tool_name": tool, "tool_input": parameters, **more}


def _bash(command: str, **more: object) -> dict[str, object]:
    return _payload("Bash", {"command": command}, **more)


class TestText:
    def test_every_part_is_a_line_in_a_fixed_order(self) -> None:
        assert text(summary(SESSION), 0, tokens.estimate).splitlines() == [
            "Goal: Let users log in with JWT",
            "Changed: src/auth/login.ts, src/auth/token.ts, package.json",
            "Failed, then passed: npm test; after editing src/auth/token.ts, package.json",
            "Passed: npm test",
            "Last: Login works with JWT now.",
            "Open: npm run lint fails",
            "Open: rotate the keys",
            "Open: write docs",
            "Error: npm test: TypeError: jwt.sign is not a function",
            "Error: npm run lint: 3:1 error unused import",
        ]

    @pytest.mark.parametrize("budget", [1, 5, 10, 20, 40, 60, 80, 120])
    def test_a_budget_keeps_whole_lines_of_the_full_text_in_their_order(self, budget: int) -> None:
        found = summary(SESSION)
        whole = text(found, 0, tokens.estimate).splitlines()
        kept = text(found, budget, tokens.estimate)
        assert tokens.estimate(kept) <= budget
        assert [line for line in whole if line in kept.splitlines()] == kept.splitlines()

    def test_the_goal_goes_last_and_what_is_open_before_what_passed(self) -> None:
        kept = text(summary(SESSION), 30, tokens.estimate)
        assert "Goal:" in kept
        assert "Open:" in kept
        assert "Passed:" not in kept

    @given(
        st.lists(
            st.builds(
                lambda kind, words, by, command, file: seen(
                    kind, words, by=by, files=(file,) if file else (), tool="Edit", command=command
                ),
                st.sampled_from(ObservationKind),
                st.text(max_size=60),
                st.sampled_from(["human", "agent", "tool"]),
                st.sampled_from(["", "make", "cd x && make", "CI=1 ", "| tail", "2>&1"]),
                st.sampled_from(["", "a.py", "src\\b.ts", "/", ".env"]),
            ),
            max_size=12,
        ),
        st.integers(1, 200),
    )
    def test_any_observations_give_a_text_within_the_budget_and_always_the_same(
        self, records: list[Record], budget: int
    ) -> None:
        found = summary(records)
        assert found == summary(records)
        kept = text(found, budget, tokens.estimate)
        assert kept == text(found, budget, tokens.estimate)
        assert tokens.estimate(kept) <= budget or kept == ""
