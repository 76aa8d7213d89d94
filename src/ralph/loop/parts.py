"""The parts of a running loop, made of files, an agent, processes and the clock.

Everything that matters is on disk at once. A task with a worktree is worked on there: agent, criteria, changes and
`root` are the worktree's while the task is current. What an agent said is redacted.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from ralph.core import process
from ralph.core.errors import RalphError
from ralph.core.record import Outcome
from ralph.core.settings import Config
from ralph.core.work import Agent, Ask, JournalEntry, RunStatus, StopReason, Task, TaskStatus
from ralph.formats.sigils import read_sigils
from ralph.install import hosts
from ralph.learning import insights
from ralph.loop import changes, criteria, runs
from ralph.loop import prompt as loop_prompt
from ralph.loop.criteria import CriteriaVerdict, Criterion
from ralph.loop.engine import AgentWork, Judgement, Parts
from ralph.loop.state import EndReason, Limits, Run
from ralph.memory import knowledge
from ralph.privacy.privacy import redact
from ralph.recall import journal, sessions
from ralph.storage import board
from ralph.tasks import progress, task, worktree
from ralph.tasks.task import LEASE

BEAT = 10.0  # seconds between two heartbeats
_PAUSE_STEP = 0.2
CHECKS = "checks"  # the member of a journal entry with the results of checks: name, passed, output
_OUTPUT_LENGTH = 2_000
_REASON_LINES = 4  # that are printed of why an iteration failed; the journal has all
_MOST_REFUSED = 5
_MOST_WAITING = 3  # tasks that are named when none is ready
_TEXTS = (
    "failure",
    "attempt_failure",
    "feedback",
    "words",
    "next_model",
)  # of a run, which agents and people wrote


class LoopPrinter(NamedTuple):
    """The terminal of a loop: its own lines, the agent's text, and a person's interruption."""

    print_line: Callable[[str], None]
    show: Callable[[str], None]
    interrupted: Callable[[], bool]
    feedback: Callable[[], str]  # a person's text after Ctrl-C; "" to end here
    calm: Callable[[], None]  # clear the interruption, since a person wants to go on


class LoopPlan(NamedTuple):
    """The agent, the criteria and the goal (redacted) of a run."""

    agent: Agent
    criteria: tuple[Criterion, ...]
    from_options: bool  # whether the criteria are those of --criteria
    goal: str = ""


class Workbench:
    """Everything one run needs; `rest` sleeps."""

    def __init__(
        self,
        root: Path,
        config: Config,
        plan: LoopPlan,
        printer: LoopPrinter,
        run: Run,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self.home = self.root = root
        self.config = config
        self.plan = plan
        self.printer = printer
        self._rest = rest
        self.agent = plan.agent
        self.run = run
        loop = config.loop
        seconds = loop.max_minutes * 60.0 + run.past_seconds if loop.max_minutes else 0.0
        cost = loop.max_cost + run.past_cost if loop.max_cost else 0.0
        self.limits = Limits(loop.max_iterations + run.past_iterations, seconds, cost)
        self.saved: Run | None = None
        self._beaten = self._renewed = 0.0
        self.disk = changes.ChangeTracker(root, process.run)
        self._prompt = self._story = ""
        self._learned: list[knowledge.LearnedEntry] = []
        self._first: CriteriaVerdict | None = None
        self._checks: list[dict[str, object]] = []
        self._patterns = config.privacy.patterns

        def warn(why: str) -> None:
            printer.print_line(f"warning: {why}")

        self._compress = sessions.CommandCompressor(root, config, warn, stopped=self.must_stop_now)
        self.cooldown = config.loop.cooldown_ms / 1000
        self._programs = dict.fromkeys(("ralph", hosts.agent_program(sys.executable, os.environ)))

    def parts(self) -> Parts:
        """Return the functions for the engine, which are methods of the same names."""
        return Parts(**{field.name: getattr(self, field.name) for field in fields(Parts)})

    def go_to(self, name: str) -> None:
        """Work in a task's worktree if it has one, else in the project."""
        at = (
            worktree.working_folder(self.home, board.find(self.home, name).task)
            if name
            else self.home
        )
        if at != self.root:
            self.root = at
            self.disk = changes.ChangeTracker(at, process.run)
            self._first = None
            self.printer.print_line(f"works in {at}")

    def assign(self, run: Run) -> Task | None:
        """Claim and return the current task, else the next one that is free."""
        names = [*(run.only or ([run.task] if run.task else []))]
        for work in task.ready(self.root) if not run.only else ():
            is_usable = worktree.problem_of(self.home, work, quick=True) is None
            if is_usable and run.feature in ("", work.feature or ""):
                names.append(work.id)
        for name in names:
            if name not in (*run.done, *run.failed):
                claimed = task.claim(self.root, name, task.claim_of(run.id), named=name in run.only)
                if claimed is not None:
                    return claimed
        return None

    def explain(self, run: Run) -> str:
        """Name the tasks that are left and what they wait for."""
        everything = board.read(self.root)
        lines = []
        for work in everything.tasks:
            status = board.status_of(work)
            waits = everything.waits_for(work)
            if status is TaskStatus.DONE or run.feature not in ("", work.feature or ""):
                continue
            states = (everything.get(name) for name in waits)
            names = [f"{other.id} ({other.status})" for other in states if other is not None]
            why = f"waits for {', '.join(names)}" if names else f"is {work.status}"
            if status in (TaskStatus.FAILED, TaskStatus.BLOCKED):
                why += f"; `ralph task reset {work.id}` opens it again"
            lines.append(f"{work.id} {why}")
        more = [f"{len(lines) - _MOST_WAITING} more"] if len(lines) > _MOST_WAITING else []
        return "; ".join(["no task is ready", *lines[:_MOST_WAITING], *more])

    def before(self) -> CriteriaVerdict:
        """Check the criteria before the first iteration; a marker cannot be there yet."""
        self._first = self._check_criteria("")
        return self._first

    def begin(self, run: Run, work: Task) -> Run:
        """Begin a task: note whether criteria fail already."""
        self.go_to(work.id)
        verdict = self._first or self._check_criteria("")
        self._first = None
        if verdict.stopped:
            return replace(run, task="", step="")
        self.printer.print_line(f"task {work.id}: {work.title}")
        progress.begin(self.root, work.id)
        return replace(run, failing=not verdict.passed)

    def settle(self, run: Run, work: Task, judgement: Judgement) -> Run:
        """Finish the task, count the attempt, or fail the task after its retries."""
        if judgement.outcome is Outcome.DONE:
            after = task.finish(self.root, work.id, TaskStatus.DONE, run=run.id)
            if after.status == TaskStatus.DONE.value:
                promotion, why = progress.promote_insights(
                    self.home, after, patterns=self._patterns
                )
                if promotion is not None and promotion.added:
                    count = count_noun(len(promotion.added), "insight")
                    self.printer.print_line(
                        f"promoted {count} of {work.id} to {promotion.path.name}"
                    )
                if why:
                    self.printer.print_line(f"warning: {why}")
            return replace(run, done=(*run.done, work.id), task="")
        if not judgement.uses_retry:
            return run
        reason = judgement.reason
        patterns = self._patterns
        number = run.iterations + 1
        attempts = task.count_attempt(
            self.root, work.id, run.id, iteration=number, note=reason, patterns=patterns
        )
        if attempts <= self.config.execution.max_retries:
            return run
        task.finish(
            self.root, work.id, TaskStatus.FAILED, run=run.id, note=reason, patterns=patterns
        )
        self.printer.print_line(f"task {work.id} failed after {count_noun(attempts, 'attempt')}")
        return replace(run, failed=(*run.failed, work.id), task="")

    def ask(self, run: Run, work: Task) -> Ask:
        """Return the prompt of the next iteration and store its snapshot."""
        iteration = run.iterations + 1
        checks = [criterion.label for criterion in self.plan.criteria]
        if self.config.execution.verify and self.agent.reads_only:
            checks.append("then a second, read-only session verifies the work")
        text = loop_prompt.build(
            self.root, self.config, run, work, checks, self.limits.max_iterations, self._compress
        )
        self._prompt = text
        self._story = progress.current_story(self.root, work.id)
        self._learned = []
        runs.keep_snapshot(self.root, run.id, iteration, redact(text, self._patterns).text)
        model = run.next_model or run.model
        self.printer.print_line(
            f"iteration {iteration}: {self.agent.name}{f' ({model})' if model else ''}"
        )
        limit = self.config.loop.iteration_minutes * 60.0  # 0 is none
        if self.limits.seconds > 0:  # at most the rest of the run's time
            rest = max(self.limits.seconds - run.seconds, 1.0)
            limit = min(limit or rest, rest)
        environment = {
            "RALPH_RUN": run.id,
            "RALPH_ITERATION": str(iteration),
            "RALPH_TASK": work.id,
        }
        environment |= {"RALPH_MODEL": model} if model else {}
        commands = [
            criterion.command or shlex.join(criterion.argv) for criterion in self.plan.criteria
        ]
        allowed = tuple(dict.fromkeys(filter(None, [*commands, *self._programs])))
        return self._make_ask(text, model, timeout=limit, environment=environment, allowed=allowed)

    def _make_ask(self, text: str, model: str, **options: Any) -> Ask:
        return Ask(
            text, self.root, model, show=self.printer.show, stopped=self.must_stop_now, **options
        )

    def work(self, ask: Ask) -> AgentWork:
        """Run the agent, and compare the disk before and after."""
        before = self.disk.snapshot()
        started = time.monotonic()
        reply = self.agent.run(ask)
        if reply.stop in (StopReason.CANCELLED, StopReason.TIMEOUT):
            # what the agent put into the background, too
            process.end_processes(process.find_by_variable("RALPH_RUN", self.run.id))
        seconds = time.monotonic() - started
        after = self.disk.snapshot()
        for what in reply.refused[:_MOST_REFUSED]:
            self.printer.print_line(f"  refused: {redact(what, self._patterns).text}")
        if reply.refused:
            self.printer.print_line(
                "  allow such calls in the agent's own settings, or with --permission"
            )
        changed = dict.fromkeys((*changes.changed_files(before, after), *reply.files))
        sigils = read_sigils(reply.text, echo=ask.prompt, outputs=reply.outputs, final=reply.final)
        return AgentWork(reply, sigils, seconds, tuple(sorted(changed)), after.fingerprint)

    def learn(self, run: Run, work: Task, worked: AgentWork) -> None:
        """Store the knowledge; an entry that fails does not affect the others."""
        self._learned = knowledge.learn(
            self.root,
            worked.sigils.knowledge,
            feature=work.feature or "",
            run=run.id,
            patterns=self._patterns,
        )
        for entry in self._learned:
            why = f" ({entry.why})" if entry.why else ""
            self.printer.print_line(f"knowledge {entry.change.value}: {entry.title}{why}")
        for name in (*worked.sigils.done, *worked.sigils.failed):
            if name and name != work.id:
                self.printer.print_line(
                    f"warning: the agent speaks of {name}, which is not the assigned task"
                )

    def check(self, worked: AgentWork) -> CriteriaVerdict:
        """Check the criteria and print a line for each."""
        reply = worked.reply
        verdict = self._check_criteria(reply.text[reply.final :], reply.outputs)
        self._checks = []
        for result in verdict.checks:
            label = result.criterion.label
            self._checks.append(_check_json(label, result.passed, result.message, result.tail))
            self.printer.print_line(
                f"  {'ok' if result.passed else 'no'}  {label}: {result.message}"
            )
        return verdict

    def verify(self, run: Run, work: Task, worked: AgentWork) -> Judgement:
        """Verify in a read-only session; one without a verdict is repeated once and uses no retry."""
        if not (self.config.execution.verify and self.agent.reads_only):
            return Judgement(Outcome.DONE)
        self.save(replace(run, step="verifying"))
        files = "\n".join(f"- {file}" for file in worked.files) or "(none that could be seen)"
        text = loop_prompt.VERIFY.format(task=loop_prompt.render_task(work), files=files)
        environment = {"RALPH_DISABLE": "1", "RALPH_RUN": run.id}
        limit = self.config.loop.iteration_minutes * 60.0
        doubt = ""
        for prompt in (text, f"{text}\n{loop_prompt.NO_VERDICT}"):
            ask = self._make_ask(
                prompt, run.model, read_only=True, timeout=limit, environment=environment
            )
            reply = self.agent.run(ask)
            if reply.stop is StopReason.CANCELLED:
                return Judgement(Outcome.INTERRUPTED)
            sigils = read_sigils(reply.text, echo=prompt, outputs=reply.outputs, final=reply.final)
            if sigils.verified is not None:  # only its verify sigils count
                doubt = "" if sigils.verified else sigils.reason or "it gave no reason"
                break
            doubt = f"it gave no verdict{f' ({reply.error})' if reply.error else ''}"
            self.printer.print_line(f"  no  verification: {doubt}")
        else:
            self._checks.append(_check_json("verification", False, doubt))
            return Judgement(Outcome.BLOCKED, f"The verification did not end: {doubt}")
        self.printer.print_line(f"  no  verification: {doubt}" if doubt else "  ok  verification")
        self._checks.append(_check_json("verification", not doubt, doubt))
        why = f"The verification did not agree: {doubt}"
        return Judgement(Outcome.RETRIED, why) if doubt else Judgement(Outcome.DONE)

    def journal(self, entry: JournalEntry, reason: str) -> None:
        """Append the entry of an iteration, with its checks, update the task's memory, and print why it ended so."""
        learned = insights.knowledge_members([(each.slug, each.change) for each in self._learned])
        members = {CHECKS: self._checks, insights.KNOWLEDGE_MEMBER: learned}
        self._checks = []
        entry = replace(
            entry,
            extra={**entry.extra, **{name: value for name, value in members.items() if value}},
        )
        journal.append(self.root, entry, self._patterns)
        try:  # that the task's memory fails is no reason to end the run
            new = progress.append_iteration(
                self.root, entry, self._learned, story=self._story, patterns=self._patterns
            )
            if self.root != self.home:
                worktree.record_learnings(self.root, new)
            insights.extract(
                self.root,
                entry.task,
                run=entry.run,
                iteration=entry.iteration,
                patterns=self._patterns,
            )
        except RalphError as error:
            self.printer.print_line(
                f"warning: the memory of {entry.task} is not complete: {error.message}"
            )
        cost = f", ${entry.cost:.4f}" if entry.cost else ""
        files = f", {count_noun(len(entry.files), 'file')}" if entry.files else ""
        self.printer.print_line(
            f"iteration {entry.iteration}: {entry.outcome} ({entry.duration:.1f} s{cost}{files})"
        )
        for line in redact(reason, self._patterns).text.splitlines()[:_REASON_LINES]:
            self.printer.print_line(f"  {line}")

    def save(self, run: Run) -> Run:
        """Save the redacted state after a step, and at the end the run record."""
        texts: dict[str, Any] = {
            name: redact(getattr(run, name), self._patterns).text for name in _TEXTS
        }
        run = replace(run, **texts)
        if run.status is not RunStatus.RUNNING:
            runs.conclude(
                self.root, run
            )  # first: a run that is killed here is not ended yet, and will be concluded
        self.saved = self.run = runs.save(self.root, self.saved, run, durable=not run.step)
        self.beat()
        return run

    def stop(self) -> EndReason | None:
        """Return why a person wants the run to end, if so."""
        if self.printer.interrupted():
            return EndReason.INTERRUPTED
        return EndReason.STOPPED if runs.stop_asked(self.root, self.run.id) else None

    def must_stop_now(self) -> bool:
        """Whether a person wants it to end at once; called often, so the heartbeat is here."""
        self.beat()
        return self.printer.interrupted() or runs.stop_asked(self.root, self.run.id) == "now"

    def feedback(self, run: Run) -> Run | None:
        """Return the run with a person's feedback after Ctrl-C; None to end here."""
        feedback = self.printer.feedback().strip() if self.printer.interrupted() else ""
        if not feedback:
            return None
        self.printer.calm()
        return replace(run, feedback=redact(feedback, self._patterns).text)

    def pause(self, seconds: float) -> None:
        """Wait, unless a person wants to stop."""
        while seconds > 0 and self.stop() is None:
            self._rest(min(_PAUSE_STEP, seconds))
            seconds -= _PAUSE_STEP
            self.beat()

    def beat(self) -> None:
        """Renew heartbeat and claim now and then; a failure does not end the agent."""
        if self.saved is None:  # a start that may still be refused
            return
        now = time.monotonic()
        if now - self._beaten >= BEAT or not self._beaten:
            self._beaten = now
            with suppress(RalphError):
                runs.beat(self.root, self.run)
        if self.run.task and now - self._renewed > LEASE / 6:
            self._renewed = now
            with suppress(RalphError):
                task.renew(self.root, self.run.task, self.run.id)

    def _check_criteria(self, text: str, outputs: Sequence[str] = ()) -> CriteriaVerdict:
        return criteria.check(
            self.plan.criteria,
            folder=self.root,
            run=process.run,
            text=text,
            echo=self._prompt,
            outputs=outputs,
            timeout=float(self.config.loop.check_seconds),
            stopped=self.must_stop_now,
        )


def _check_json(name: str, passed: bool, message: str, tail: str = "") -> dict[str, object]:
    output = message if passed or not tail else f"{message}\n{tail[-_OUTPUT_LENGTH:]}"
    return {"name": name, "passed": passed, "output": output}


def count_noun(number: int, noun: str) -> str:
    """Return a number of things: 1 file, 2 files."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
