"""Measure how much of a decision reaches an agent that gets a bug report as its prompt.

`make bench` calls `run`; `python bench/delivery.py [DIR]` runs it alone. DIR/decisions/decisions.json
contains chats in which something was decided, chats about other things, bug reports, and the
wording of each decision, clause by clause. A decision is plain if one chat made it, and amended if
later chats changed it. Both are measured in separate projects, whose hooks record the chats.

A clause is delivered if 60% of its distinctive words are in injected sentences of the right chats.
The bound is what the whole right chats would deliver. The negative control is a prompt about
something else, alone and with a long paste: it should get no passage. How many get nothing at all,
not even a pointer, is shown as well. The compacted cases are the
same prompt again after a compaction, and a prompt in the deciding chat itself, which continued about
something else and was compacted.

The last figures are those after `ralph learn` with a scripted agent that returns each decision in
one sentence, when all proposals are accepted. `python bench/delivery.py --learn [DIR]` measures only
these.
"""

import json
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import baselines, loaders, retrieval
from ralph.core import terms
from ralph.core.errors import RalphError
from ralph.core.prompts import INJECTED
from ralph.core.record import Record
from ralph.core.tokens import estimate
from ralph.hooks.handler import run_event
from ralph.learning import learn, learn_answer, review
from ralph.learning.learn import AgentAnswer, AskAgent, LearnRequest
from ralph.search import index

FILE = "decisions/decisions.json"
CONTROL = "unrelated.txt"
UNRELATED = retrieval.OWN / CONTROL
PASTED = retrieval.OWN / "pasted.txt"
KOREAN = retrieval.OWN / "korean"
AMENDED = retrieval.OWN / "amended" / "dev"
AMENDED_CHECK = retrieval.OWN / "amended" / "check"
"""Written like AMENDED, but nothing is tuned to it."""
HEADINGS = (
    "arm",
    "decisions",
    "right chat",
    "right first",
    "clauses",
    "whole",
    "amended, newest",
    "tokens p50",
    "no passage",
    "no passage, paste",
    "nothing",
    "nothing, paste",
)
ENOUGH = 0.6  # of a clause's distinctive words
MIN_SHARE_OF_BOUND = 0.95  # of the clauses and whole decisions in the right chats
MIN_NEWEST = 0.9  # of the amended decisions
MIN_FIRST = 0.9
MIN_WITHOUT_PASSAGE = 0.95
MAX_LOSS_BY_COMPACTION = 0.02
MAX_TOKENS = 700  # in the median
LEARNED_TOKENS = 150
"""The maximum in the median once the decisions are memories (`ralph learn`)."""
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+|\n+")
_LONG = 20  # letters of a sentence that may count as part of another
_SEED = 7
_LATER = 2  # other chats in a session before it is compacted
RALPH = "ralph"
COMPACTED = f"{RALPH}, compacted"
BOUND = "the whole right chats"
LEARN_ONLY = "--learn"  # the option that measures only what is delivered after `ralph learn`

Chat = Sequence[tuple[str, str]]
"""Turns: who speaks ("user" or "assistant"), and the text."""

Arm = Callable[[str, Sequence[str]], str]
"""Returns what is injected for a prompt. It also gets the names of the right chats, which only the upper bound uses."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A prompt, the names of the deciding chats, in order, and the clauses of the decision."""

    prompt: str
    chats: tuple[str, ...]
    clauses: tuple[str, ...]
    sentence: str = ""
    """The decision as an agent would distil it."""


@dataclass(frozen=True, slots=True)
class Project:
    """Chats by name, in recording order, and the decisions made in them."""

    name: str
    chats: Mapping[str, Chat]
    decisions: Sequence[Decision]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The result for one prompt: shares and verdicts for a decision."""

    reached: bool
    first: bool
    clauses: tuple[bool, ...]
    newest: bool | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of an arm."""

    decisions: int
    reached: float
    first: float
    clauses: float
    whole: float
    amended: float | None
    tokens: float
    no_passage: float | None = None
    no_passage_with_paste: float | None = None
    nothing: float | None = None
    nothing_with_paste: float | None = None


def load(value: object) -> tuple[dict[str, Chat], list[Decision]]:
    """Return the chats by name, in recording order, and the decisions; raise Unreadable for any other shape."""
    whole = loaders.read_object(value, "decisions")
    chance = random.Random(_SEED)
    places: dict[str, tuple[float, Chat]] = {}
    decisions = []
    for task in loaders.read_objects(whole, "tasks", "decisions"):
        name, place = loaders.read_text(task, "task_id", "decisions"), 0.0
        talks = task.get("conversations")
        names = []
        for number, talk in enumerate(talks if isinstance(talks, list) else ()):
            place += (1 - place) * chance.random()  # a chat that amends another comes after it
            names.append(f"{name}-{number}")
            places[names[-1]] = place, _turns({"turns": talk})
        policy = loaders.read_text(task, "policy", "decisions")
        clauses = tuple(clause for clause in policy.split(";") if telling_words(clause))
        subject = " ".join(str(task[key]) for key in ("module", "function") if task.get(key))
        decisions.append(
            Decision(
                loaders.read_text(task, "bug_report", "decisions"),
                tuple(names),
                clauses,
                f"{subject or name}: {policy}",
            )
        )
    for decoy in loaders.read_objects(whole, "decoys", "decisions"):
        places[loaders.read_text(decoy, "id", "decisions")] = chance.random(), _turns(decoy)
    return {
        name: places[name][1] for name in sorted(places, key=lambda name: places[name][0])
    }, decisions


def split_projects(chats: Mapping[str, Chat], decisions: Sequence[Decision]) -> list[Project]:
    """Return a project with the plain decisions and one with the amended ones, if there are any.

    Both have all chats about other things.
    """
    deciding = {name for decision in decisions for name in decision.chats}
    plain = [decision for decision in decisions if len(decision.chats) == 1]
    amended = [decision for decision in decisions if len(decision.chats) > 1]
    projects = []
    for name, part in (("plain", plain), ("amended", amended)):
        own = {chat for decision in part for chat in decision.chats}
        recorded_chats = {
            chat: turns for chat, turns in chats.items() if chat in own or chat not in deciding
        }
        if part:
            projects.append(Project(name, recorded_chats, part))
    return projects


def _turns(talk: Mapping[str, object]) -> Chat:
    turns = loaders.read_objects(talk, "turns", "decisions")
    return [
        (loaders.read_text(turn, "role", "decisions"), loaders.read_text(turn, "text", "decisions"))
        for turn in turns
    ]


# --- counting -----------------------------------------------------------------------------------


def telling_words(clause: str) -> list[terms.QueryWord]:
    """Return the words of a clause that are not everyday words."""
    words = terms.query_terms(clause)
    return [
        word for word in words if word.text.lower() not in terms.STOP_WORDS | terms.EVERYDAY_WORDS
    ]


def has_clause(sentences: Sequence[str], clause: str) -> bool:
    """Whether sentences contain enough of a clause's distinctive words; an identifier as a whole or all its parts."""
    text = terms.TermMatcher("\n".join(sentences))
    words = telling_words(clause)
    present = [
        word
        for word in words
        if text.contains(max(word.terms, key=len))
        or all(map(text.contains, sorted(word.terms, key=len)[:-1] or ["\0"]))
    ]
    return len(present) >= ENOUGH * len(words)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text."""
    return [part for part in _SENTENCE.split(text) if _letters(part)]


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


class SentenceSource:
    """The chats that a sentence comes from: it is one of their sentences, or a long part of one."""

    def __init__(self, chats: Mapping[str, Chat]) -> None:
        self.known = {
            name: (
                {_letters(part) for _, text in chat for part in split_sentences(text)},
                " ".join(_letters(text) for _, text in chat),
            )
            for name, chat in chats.items()
        }

    def chats(self, sentence: str) -> list[str]:
        """Return the names of the chats that contain a sentence."""
        part = _letters(sentence)
        return [
            name
            for name, (own, text) in self.known.items()
            if part in own or (len(part) >= _LONG and part in text)
        ]


def judge(
    text: str, decision: Decision, chats: Mapping[str, Chat], source: SentenceSource
) -> Delivered:
    """Count how much of a decision a text contains."""
    origins = [(sentence, source.chats(sentence)) for sentence in split_sentences(text)]
    right = [sentence for sentence, names in origins if not set(names).isdisjoint(decision.chats)]
    first = next(
        (names for sentence, names in origins if names and len(_letters(sentence)) >= _LONG), []
    )
    newest = None
    if len(decision.chats) > 1:
        latest = decision.chats[-1]
        said = [part for _, turn in chats[latest] for part in split_sentences(turn)]
        given = [sentence for sentence, names in origins if latest in names]
        newest = all(
            has_clause(given, clause) for clause in decision.clauses if has_clause(said, clause)
        )
    return Delivered(
        any(len(_letters(sentence)) >= _LONG for sentence in right),  # "Right." is in many chats
        not set(first).isdisjoint(decision.chats),
        tuple(has_clause(right, clause) for clause in decision.clauses),
        newest,
        estimate(text) if text else 0,
    )


def figures(delivered: Sequence[Delivered]) -> Figures:
    """Return the figures of an arm; clauses are averaged over all decisions' clauses."""
    amended = [each.newest for each in delivered if each.newest is not None]
    return Figures(
        len(delivered),
        fmean(each.reached for each in delivered),
        fmean(each.first for each in delivered),
        fmean(clause for each in delivered for clause in each.clauses),
        fmean(all(each.clauses) for each in delivered),
        fmean(amended) if amended else None,
        median(each.tokens for each in delivered),
    )


# --- arms ---------------------------------------------------------------------------------------


@contextmanager
def recorded(
    chats: Mapping[str, Chat], teach: Callable[[Path], None] | None = None
) -> Iterator[dict[str, Arm]]:
    """A project whose hooks recorded the chats; the arms are its prompt hook, in new and in compacted sessions.

    `teach` is called with the project after the chats.
    """
    with tempfile.TemporaryDirectory(prefix="ralph-bench-") as folder:
        root = Path(folder).resolve() / "project"
        (root / ".git").mkdir(parents=True)
        (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        (root / "ralph.yml").write_text("memories:\n  enabled: true\n", encoding="utf-8")
        home = {
            "HOME": folder,
            "XDG_STATE_HOME": f"{folder}/state",
            "XDG_CONFIG_HOME": f"{folder}/config",
        }
        env = {**home, "CLAUDE_PROJECT_DIR": str(root), "PATH": os.environ["PATH"]}
        before = dict(os.environ)
        os.environ.update(home)  # the user's own memory is not part of this

        def send(event: str, session: str, **members: object) -> str:
            payload = {"session_id": session, "cwd": str(root), "hook_event_name": event, **members}
            raw = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
            printed = run_event("claude", event, raw, env).decode()
            return (
                str(json.loads(printed)["hookSpecificOutput"]["additionalContext"])
                if printed
                else ""
            )

        def talk(session: str, chat: Chat) -> None:
            for who, text in chat:
                if who == "user":
                    send("UserPromptSubmit", session, prompt=text)
                else:
                    send("Stop", session, stop_hook_active=False, last_assistant_message=text)

        def ask(prompt: str, _: Sequence[str] = ()) -> str:
            return send("UserPromptSubmit", f"asked-{next(numbers)}", prompt=prompt)

        def ask_compacted(session: str, prompt: str) -> str:
            send("PreCompact", session, trigger="auto", custom_instructions="")
            start = send("SessionStart", session, source="compact")
            return f"{start}\n\n{send('UserPromptSubmit', session, prompt=prompt)}"

        def ask_again(prompt: str, _: Sequence[str]) -> str:
            send("UserPromptSubmit", session := f"again-{next(numbers)}", prompt=prompt)
            return ask_compacted(session, prompt)

        def ask_within(prompt: str, right: Sequence[str]) -> str:
            for number in range(_LATER):
                talk(right[-1], others[(next(numbers) + number) % len(others)])
            return ask_compacted(right[-1], prompt)

        numbers, others = iter(range(1 << 30)), [*chats.values()]
        try:
            for name, chat in chats.items():
                talk(name, chat)
                send("SessionEnd", name, reason="other")
            if teach is not None:
                teach(root)
            yield {
                RALPH: ask,
                COMPACTED: ask_again,
                f"{RALPH}, own chat compacted": ask_within,
            }
        finally:
            os.environ.clear()
            os.environ.update(before)


# --- after `ralph learn` ------------------------------------------------------------------------

_QUOTED = 60  # letters of a turn that the scripted agent quotes
_LINE = re.compile(r"^\[(?P<id>obs-\w+)\] \w+: (?P<text>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Learned:
    """What the prompt hook delivers once each decision is a memory of one sentence."""

    decisions: int
    accepted: int
    whole: float
    tokens: float


def scripted_agent(chats: Mapping[str, Chat], decisions: Sequence[Decision]) -> AskAgent:
    """Return an agent that distils each decision into one sentence, with all of its turns as evidence."""

    def ask(prompt: str) -> AgentAnswer:
        lines = [(match["id"], match["text"]) for match in _LINE.finditer(prompt)]
        memories = []
        for decision in decisions:
            evidence = {name: _quotes(lines, chats[name]) for name in decision.chats}
            if evidence[decision.chats[-1]]:
                text = " ".join(decision.sentence.split())
                quotes = [quote for found in evidence.values() for quote in found]
                memories.append({"text": text, "type": "decision", "evidence": quotes})
        return AgentAnswer(json.dumps({"memories": memories}))

    return ask


def _quotes(lines: Sequence[tuple[str, str]], chat: Chat) -> list[dict[str, str]]:
    """Return a quote from each turn of a chat that is in the digest."""
    found = []
    for _, turn in chat:
        quote = " ".join(turn.split())[:_QUOTED]
        for record_id, text in lines:
            if text.startswith(quote) and len(quote) >= learn_answer.MIN_QUOTE_CHARACTERS:
                found.append({"id": record_id, "quote": quote})
    return found


def measure_learned(chats: Mapping[str, Chat], decisions: Sequence[Decision]) -> Learned:
    """Run `ralph learn` with the scripted agent, accept everything, and send the prompts."""
    accepted = []

    def teach(root: Path) -> None:
        report = learn.learn(root, LearnRequest(), scripted_agent(chats, decisions), lambda _: None)
        for proposal in report.proposals:
            accepted.append(review.accept(root, proposal.id).record.id)
        index.wait_until_current(root)  # as at the start of the next session

    with recorded(chats, teach) as hooks:
        delivered = [hooks[RALPH](decision.prompt, ()) for decision in decisions]
    whole = [
        all(has_clause(split_sentences(text), clause) for clause in decision.clauses)
        for decision, text in zip(decisions, delivered, strict=True)
    ]
    tokens = median(estimate(text) if text else 0 for text in delivered)
    return Learned(len(decisions), len(accepted), fmean(whole), tokens)


def report_learned(learned: Learned) -> list[str]:
    """Return a line for each target after `ralph learn`."""
    is_whole = learned.whole == 1
    is_short = learned.tokens <= LEARNED_TOKENS
    return [
        f"  {'after ralph learn: decisions that became memories':<60} "
        f"{learned.accepted} of {learned.decisions}",
        f"  {'after ralph learn: decisions that arrive whole':<60} {learned.whole:5.3f} "
        f"(target 1.000) {'target' if is_whole else 'below target'}",
        f"  {'after ralph learn: tokens in the median':<60} {learned.tokens:5.0f} "
        f"(at most {LEARNED_TOKENS}) {'target' if is_short else 'below target'}",
    ]


def other_arms(chats: Mapping[str, Chat]) -> Iterator[tuple[str, Arm]]:
    """Yield the other arms: nothing, the last chat, five messages by full-text search, the right chats."""

    def whole(names: Sequence[str]) -> str:
        return "\n\n".join(f"{who}: {text}" for name in names for who, text in chats[name])

    messages = [Record(f"{name}-{number}", loaders.NOTE, text)
                for name, chat in chats.items() for number, (_, text) in enumerate(chat)]  # fmt: skip
    yield "no memory", lambda prompt, right: ""
    yield "the last session", lambda prompt, right: whole([*chats][-1:])
    with baselines.porter_fts5(messages) as ask:
        yield (
            "fts5 porter, top 5",
            lambda prompt, right: "\n\n".join(hit.record.text for hit in ask(prompt, 5)),
        )
    yield BOUND, lambda prompt, right: whole(right)


def has_passage(text: str) -> bool:
    """Return whether a text has more than pointers. What Ralph injects marks passages and records by their ids."""
    if not text.startswith(INJECTED):
        return bool(text)
    return any(line.startswith("- [") for line in text.splitlines())


def with_paste(prompts: Sequence[str]) -> list[str]:
    """Return prompts with an unrelated stack trace or issue before or after them."""
    pasted = PASTED.read_text(encoding="utf-8").split("\n=====\n")
    pairs = [(prompt, pasted[number % len(pasted)]) for number, prompt in enumerate(prompts)]
    return ["\n\n".join(pair if number % 2 else pair[::-1]) for number, pair in enumerate(pairs)]


def measure(project: Project, unrelated: Sequence[str]) -> dict[str, Figures]:
    """Return the figures of every arm."""
    source = SentenceSource(project.chats)

    def asked(arm: Arm) -> Figures:
        delivered = []
        for decision in project.decisions:
            text = arm(decision.prompt, decision.chats)
            delivered.append(judge(text, decision, project.chats, source))
        return figures(delivered)

    def with_silence(arm: Arm, before: Figures) -> Figures:
        if not unrelated:
            return before
        alone = [arm(prompt, ()) for prompt in unrelated]
        pasted = [arm(prompt, ()) for prompt in with_paste(unrelated)]
        return replace(
            before,
            no_passage=fmean(not has_passage(text) for text in alone),
            no_passage_with_paste=fmean(not has_passage(text) for text in pasted),
            nothing=fmean(not text for text in alone),
            nothing_with_paste=fmean(not text for text in pasted),
        )

    measured: dict[str, Figures] = {}
    for name, arm in other_arms(project.chats):
        measured[name] = asked(arm)
        if name != BOUND:
            measured[name] = with_silence(arm, measured[name])
    with recorded(project.chats) as hooks:
        for name, hook in hooks.items():
            measured[name] = asked(hook)
        # Last, since hooks record these prompts as well.
        measured[RALPH] = with_silence(hooks[RALPH], measured[RALPH])
    return measured


# --- the report ---------------------------------------------------------------------------------


def report(project: Project, measured: Mapping[str, Figures]) -> list[str]:
    """Return the table, and a line for each of Ralph's targets."""
    rows = [(name, *_cells(each)) for name, each in measured.items()]
    lines = retrieval.table(HEADINGS, rows)
    ralph = measured[RALPH]
    bound = measured[BOUND]
    compacted = measured[COMPACTED]
    targets = [
        ("clauses, of what the right chats have", _share(ralph.clauses, bound.clauses), MIN_SHARE_OF_BOUND),
        ("whole decisions, of what the right chats have", _share(ralph.whole, bound.whole), MIN_SHARE_OF_BOUND),
        ("newest rule", ralph.amended, MIN_NEWEST),
        ("right chat first", ralph.first, MIN_FIRST),
        ("no passage for unrelated prompts", ralph.no_passage, MIN_WITHOUT_PASSAGE),
        ("the same with a paste", ralph.no_passage_with_paste, MIN_WITHOUT_PASSAGE),
        ("clauses after a compaction", compacted.clauses, ralph.clauses - MAX_LOSS_BY_COMPACTION),
        ("whole decisions after a compaction", compacted.whole, ralph.whole - MAX_LOSS_BY_COMPACTION),
    ]  # fmt: skip
    for what, value, target in targets:
        if value is not None:
            verdict = "target" if value >= target else "below target"
            label = f"{project.name} decisions: {what}"
            lines.append(f"  {label:<64} {value:5.3f} (target {target:.3f}) {verdict}")
    verdict = "target" if ralph.tokens <= MAX_TOKENS else "below target"
    label = f"{project.name} decisions: tokens in the median"
    lines.append(f"  {label:<64} {ralph.tokens:5.0f} (at most {MAX_TOKENS:,}) {verdict}")
    return lines


def _cells(each: Figures) -> list[str]:
    shares = (each.reached, each.first, each.clauses, each.whole, each.amended)
    silences = (
        each.no_passage,
        each.no_passage_with_paste,
        each.nothing,
        each.nothing_with_paste,
    )
    return [
        str(each.decisions),
        *map(_cell, shares),
        f"{each.tokens:.0f}",
        *map(_cell, silences),
    ]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(value: float, whole: float) -> float | None:
    return value / whole if whole else None


def run(data: Path = retrieval.DATA, *, only_learned: bool = False) -> list[str]:
    """Measure and return the report, or a line that says where the data set is expected."""
    path = data / FILE
    if not path.exists():
        return [f"delivery: no data set at {path}"]
    chats, decisions = load(retrieval.read_json(path))
    learned = report_learned(measure_learned(chats, decisions))
    if only_learned:
        return [f"Delivery of decisions after `ralph learn`, {data.name}", "", *learned]
    control = own if (own := data / CONTROL).exists() else UNRELATED
    unrelated = control.read_text(encoding="utf-8").splitlines()
    lines = []
    for project in split_projects(chats, decisions):
        lines += [
            f"Delivery of {project.name} decisions, {data.name}",
            "",
            *report(project, measure(project, unrelated)),
            "",
        ]
    return [*lines, *learned]


def main() -> int:
    """Print the report."""
    try:
        words = [word for word in sys.argv[1:] if word != LEARN_ONLY]
        data = Path(words[0]) if words else retrieval.DATA
        print("\n".join(run(data, only_learned=LEARN_ONLY in sys.argv)))
    except RalphError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
