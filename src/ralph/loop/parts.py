"""Implement the parts of a running loop with real files, agents, processes and the clock.

The engine in `loop/engine.py` calls these parts and touches nothing else. Everything that matters
is written to disk immediately. A task that has a worktree is worked on there: while it is the
current task, `root` is the worktree, the agent and the criteria run in it, and changes are detected
in it. Text from agents is redacted before it is stored.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ralph.core import launchers, process
from ralph.core.errors import RalphError
from ralph.core.record import Outcome
from ralph.core.settings import Config
from ralph.core.work import (
    Ask,
    JournalEntry,
    Reply,
    RunStatus,
    StopReason,
    Task,
    TaskStatus,
)
from ralph.formats.sigils import Sigils, read_sigils
from ralph.learning import promotion, task_insights
from ralph.loop import changes, run_prompts, run_record, runs, task_choice
from ralph.loop import prompt as loop_prompt
from ralph.loop.criteria import CriteriaVerdict, check_criteria, shorter_timeout
from ralph.loop.engine import AgentWork, Judgement, Parts
from ralph.loop.plan import LoopPlan
from ralph.loop.printer import LoopPrinter, count_noun
from ralph.loop.prompt_texts import render_verification
from ralph.loop.state import EndReason, Limits, Run
from ralph.memory import knowledge
from ralph.memory.memory import Change
from ralph.privacy.privacy import redact
from ralph.recall import journal, summarize_command
from ralph.storage import task_files
from ralph.tasks import claims, lifecycle, prd_file, progress, worktree, worktree_learnings
from ralph.tasks.claims import LEASE_SECONDS

HEARTBEAT_SECONDS = 10.0
CHECKS = "checks"  # the journal entry member for check results (name, passed, output)
_PAUSE_STEP_SECONDS = 0.2  # how often a pause looks for a stop request
_RENEWALS_PER_LEASE = 6
_SECONDS_PER_MINUTE = 60.0
_MILLISECONDS_PER_SECOND = 1000
_MIN_SECONDS = 1.0  # for an iteration or a check when the run's time is nearly used up
_COMMIT_COMMANDS = ("git add", "git commit")
_MAX_CHECK_OUTPUT = 2_000  # characters of a check's output in a journal entry, from the end


class Workbench:
    """Everything that one run works with: the project, the agent, the terminal and the state."""

    def __init__(
        self,
        root: Path,
        config: Config,
        plan: LoopPlan,
        printer: LoopPrinter,
        run: Run,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.home = root
        self.root = root  # the worktree of the current task, if it has one
        self.config = config
        self.plan = plan
        self.printer = printer
        self.agent = plan.agent
        self.run = run
        self.saved: Run | None = None  # None until the run is on disk
        self.limits = _run_limits(config, run)
        self.disk = changes.ChangeTracker(root, process.run)
        self.cooldown = config.loop.cooldown_ms / _MILLISECONDS_PER_SECOND
        self._sleep = sleep
        self._patterns = config.privacy.patterns
        self._compress = summarize_command.CommandCompressor(
            root, config, self.printer.warn, stopped=self.must_stop_now
        )
        self._programs = ("ralph", launchers.agent_program(sys.executable, os.environ))
        # Times on the monotonic clock. 0 means never.
        self._last_beat = 0.0
        self._last_renewal = 0.0
        # The current iteration.
        self._prompt = ""
        self._open_stories: list[str] = []  # when the iteration began
        self._learned: list[knowledge.LearnedEntry] = []
        self._checks: list[dict[str, object]] = []
        # The verdict before the first iteration, kept until the first task begins.
        self._first_verdict: CriteriaVerdict | None = None

    def parts(self) -> Parts:
        """Return the functions that the engine calls."""
        return Parts(
            assign=self.assign,
            has_work=self.has_work,
            begin=self.begin,
            ask=self.ask,
            work=self.work,
            learn=self.learn,
            check=self.check,
            verify=self.verify,
            journal=self.journal,
            settle=self.settle,
            explain=self.explain,
            save=self.save,
            stop=self.stop,
            feedback=self.feedback,
            pause=self.pause,
            cooldown=self.cooldown,
        )

    @property
    def _verifies(self) -> bool:
        """Whether a second session verifies the work."""
        return self.config.execution.verify and self.agent.enforces_read_only

    @property
    def _is_in_worktree(self) -> bool:
        return self.root != self.home

    # --- tasks -----------------------------------------------------------------------------------

    def enter_folder(self, task_id: str) -> None:
        """Switch to the worktree of a task. Without an id or a worktree, use the project folder."""
        folder = self.home
        if task_id:
            folder = worktree.working_folder(
                self.home, task_files.find_task(self.home, task_id).task
            )
        if folder != self.root:
            self.root = folder
            self.disk = changes.ChangeTracker(folder, process.run)
            self._first_verdict = None
            self.printer.print_line(f"works in {folder}")

    def assign(self, run: Run) -> Task | None:
        """Claim and return the current task, or the next free one. Returns None if none is left."""
        for name in task_choice.remaining_tasks(self.home, self.root, run):
            claim = claims.make_claim(run.id)
            claimed = claims.acquire(self.root, name, claim, named=name in run.only)
            if claimed is not None:
                return claimed
        return None

    def has_work(self, run: Run) -> bool:
        """Return whether a task is left for the run."""
        return bool(task_choice.remaining_tasks(self.home, self.root, run))

    def explain(self, run: Run) -> str:
        """Explain why no task is ready."""
        return task_choice.explain_waiting(self.root, run.feature)

    def check_before_start(self) -> CriteriaVerdict:
        """Check the criteria before the first iteration, when there is no answer to look at.

        The time this takes counts towards the run's limit.
        """
        verdict = self._check_criteria("")
        self._first_verdict = verdict
        self.run = replace(self.run, seconds=self.run.seconds + verdict.seconds)
        return verdict

    def begin(self, run: Run, work: Task) -> Run:
        """Begin a task, and record in the run whether its criteria fail at this point."""
        self.enter_folder(work.id)
        verdict = self._first_verdict
        if verdict is None:
            verdict = self._check_criteria("")
            run = replace(run, seconds=run.seconds + verdict.seconds)
        self._first_verdict = None
        if verdict.stopped:
            return replace(run, task="", step="")
        self.printer.print_line(f"task {work.id}: {work.title}")
        progress.create_progress_file(self.root, work.id)
        return replace(run, failing=not verdict.passed)

    def settle(self, run: Run, work: Task, judgement: Judgement) -> Run:
        """Finish the task, count a failed attempt, or fail the task if no retries are left."""
        if judgement.outcome is Outcome.DONE:
            finished = claims.finish(self.root, work.id, TaskStatus.DONE, run=run.id)
            if finished.status == TaskStatus.DONE.value:
                self._promote_insights(finished)
            return replace(run, done=(*run.done, work.id), task="")
        if not judgement.uses_retry:
            return run
        attempts = claims.count_attempt(
            self.root,
            work.id,
            run.id,
            iteration=run.iterations + 1,
            note=judgement.reason,
            patterns=self._patterns,
        )
        if attempts <= self.config.execution.max_retries:
            return run
        claims.finish(
            self.root,
            work.id,
            TaskStatus.FAILED,
            run=run.id,
            note=judgement.reason,
            patterns=self._patterns,
        )
        self.printer.print_line(f"task {work.id} failed after {count_noun(attempts, 'attempt')}")
        return replace(run, failed=(*run.failed, work.id), task="")

    def _promote_insights(self, finished: Task) -> None:
        promoted, why = lifecycle.promote_insights(self.home, finished, patterns=self._patterns)
        if promoted is not None and promoted.added:
            count = count_noun(len(promoted.added), "proposal")
            self.printer.print_line(f"promoted {count} of {finished.id} to {promoted.path.name}")
        if why:
            self.printer.warn(why)

    # --- the agent -------------------------------------------------------------------------------

    def ask(self, run: Run, work: Task) -> Ask:
        """Build the prompt for the next iteration, and store a snapshot of it."""
        iteration = run.iterations + 1
        self._prompt = self._build_prompt(run, work)
        self._open_stories = prd_file.open_stories(self.root, work.id)
        self._learned = []
        snapshot = redact(self._prompt, self._patterns).text
        run_prompts.save(self.root, run.id, iteration, snapshot)
        model = run.next_model or run.model
        line = f"iteration {iteration}: {self.agent.name}"
        if model:
            line += f" ({model})"
        self.printer.print_line(line)
        environment = {
            "RALPH_RUN": run.id,
            "RALPH_ITERATION": str(iteration),
            "RALPH_TASK": work.id,
        }
        if model:
            environment["RALPH_MODEL"] = model
        return Ask(
            self._prompt,
            self.root,
            model,
            timeout=self._iteration_timeout(run),
            allowed=self._allowed_commands(),
            folders=self._more_folders(work),
            environment=environment,
            show=self.printer.show,
            stopped=self.must_stop_now,
        )

    def _build_prompt(self, run: Run, work: Task) -> str:
        checks = [criterion.label for criterion in self.plan.criteria]
        return loop_prompt.build(
            self.root,
            self.config,
            run,
            work,
            checks=checks,
            verified=self._verifies,
            branch=(work.branch or "") if self._is_in_worktree else "",
            max_iterations=self.limits.max_iterations,
            compress=self._compress,
        )

    def _iteration_timeout(self, run: Run) -> float:
        """Return how many seconds the next iteration may take, or 0 for no limit.

        It never gets more time than the run has left.
        """
        timeout = self.config.loop.iteration_minutes * _SECONDS_PER_MINUTE
        return shorter_timeout(timeout, self._seconds_left(run.seconds))

    def _seconds_left(self, used: float) -> float:
        """Return how many seconds the run has left, or 0 if its time is not limited."""
        if self.limits.seconds <= 0:
            return 0.0
        return max(self.limits.seconds - used, _MIN_SECONDS)

    def _allowed_commands(self) -> tuple[str, ...]:
        """Return the commands that the agent may run without asking.

        They are the commands of the criteria, Ralph itself, and in a worktree committing: what is
        not committed there cannot be merged.
        """
        commands: list[str] = []
        if self._is_in_worktree:
            commands.extend(_COMMIT_COMMANDS)
        for criterion in self.plan.criteria:
            commands.append(criterion.command or shlex.join(criterion.argv))
        commands.extend(self._programs)
        return tuple(dict.fromkeys(command for command in commands if command))

    def _more_folders(self, work: Task) -> tuple[Path, ...]:
        """Return the folders outside the working folder that the agent may read and edit."""
        if not self._is_in_worktree:
            return ()
        return (progress.task_folder(self.home, work.id),)

    def work(self, ask: Ask) -> AgentWork:
        """Run the agent, and find the files that it changed."""
        before = self.disk.snapshot()
        started_at = time.monotonic()
        reply = self.agent.run(ask)
        if reply.stop in (StopReason.CANCELLED, StopReason.TIMEOUT):
            # Processes that the agent started in the background are still running.
            process.end_processes(process.find_by_variable("RALPH_RUN", self.run.id))
        seconds = time.monotonic() - started_at
        after = self.disk.snapshot()
        refused = [redact(call, self._patterns).text for call in reply.refused]
        self.printer.print_refused_calls(refused)
        changed = {*changes.changed_files(before, after), *reply.files}
        sigils = _read_sigils(reply, ask.prompt)
        return AgentWork(reply, sigils, seconds, tuple(sorted(changed)), after.fingerprint)

    def learn(self, run: Run, work: Task, worked: AgentWork) -> None:
        """Store the agent's knowledge entries. If one fails, the others are still stored."""
        self._learned = knowledge.learn(
            self.root,
            worked.sigils.knowledge,
            feature=work.feature or "",
            run=run.id,
            patterns=self._patterns,
        )
        for entry in self._learned:
            line = f"knowledge {entry.change.value}: {entry.title}"
            if entry.why:
                line += f" ({entry.why})"
            self.printer.print_line(line)
        for ignored in worked.sigils.ignored:
            if ignored.name in ("knowledge", "journal"):
                self.printer.warn(ignored.remark)
        self._tick_stories(work, worked.sigils)
        for name in (*worked.sigils.done, *worked.sigils.failed):
            if name and name != work.id:
                self.printer.warn(f"the agent named {name}, which is not the assigned task")

    def _tick_stories(self, work: Task, sigils: Sigils) -> None:
        """Mark the stories in the task's prd.json that the agent says are done."""
        ticked = prd_file.tick_stories(self.home, work.id, sigils.stories)
        for name in ticked:
            self.printer.print_line(f"story {name} is done")
        for name in sigils.stories:
            if name not in ticked:
                self.printer.warn(f"the agent named {name}, which is not an open story")

    # --- checks ----------------------------------------------------------------------------------

    def check(self, worked: AgentWork) -> CriteriaVerdict:
        """Check the criteria, and print a line for each."""
        reply = worked.reply
        last_message = reply.text[reply.final :]
        verdict = self._check_criteria(last_message, reply.outputs)
        self._checks = []
        for result in verdict.checks:
            label = result.criterion.label
            self._checks.append(_check_json(label, result.passed, result.message, result.tail))
            self.printer.print_check(f"{label}: {result.message}", passed=result.passed)
        return verdict

    def _check_criteria(self, text: str, outputs: Sequence[str] = ()) -> CriteriaVerdict:
        started_at = time.monotonic()

        def seconds() -> float:
            return time.monotonic() - started_at

        verdict = check_criteria(
            self.plan.criteria,
            folder=self.root,
            run=partial(process.run, dies_with_us=True),
            text=text,
            echo=self._prompt,
            outputs=outputs,
            timeout=float(self.config.loop.check_seconds),
            stopped=self.must_stop_now,
            seconds_left=lambda: self._seconds_left(self.run.seconds + seconds()),
        )
        return verdict._replace(seconds=seconds())

    def verify(self, run: Run, work: Task, worked: AgentWork) -> Judgement:
        """Have the work verified in a second, read-only session, unless a story is open.

        A session that gives no verdict is repeated once. If there is still no verdict, the
        iteration does not count against the task's retries.
        """
        open_stories = prd_file.open_stories(self.home, work.id)
        if open_stories:
            return Judgement(Outcome.BLOCKED, _explain_open_stories(open_stories))
        if not self._verifies:
            return Judgement(Outcome.DONE)
        self.save(replace(run, step="verifying"))
        problem = ""
        for repeated in (False, True):
            prompt = render_verification(work, worked.files, repeated=repeated)
            reply = self.agent.run(self._make_verification_ask(run, prompt))
            if reply.stop is StopReason.CANCELLED:
                return Judgement(Outcome.INTERRUPTED)
            sigils = _read_sigils(reply, prompt)
            if sigils.verified is not None:  # other sigils do not count in this session
                return self._report_verdict(sigils)
            problem = "it gave no verdict"
            for ignored in sigils.ignored:
                if ignored.name in ("verify-pass", "verify-fail"):
                    problem += f"; {ignored.remark}"
            if reply.error:
                problem += f" ({reply.error})"
            self.printer.print_check(f"verification: {problem}", passed=False)
        self._checks.append(_check_json("verification", passed=False, message=problem))
        return Judgement(Outcome.BLOCKED, f"The verification did not end: {problem}")

    def _make_verification_ask(self, run: Run, prompt: str) -> Ask:
        return Ask(
            prompt,
            self.root,
            run.model,
            read_only=True,
            timeout=self.config.loop.iteration_minutes * _SECONDS_PER_MINUTE,
            environment={"RALPH_DISABLE": "1", "RALPH_RUN": run.id},
            show=self.printer.show,
            stopped=self.must_stop_now,
        )

    def _report_verdict(self, sigils: Sigils) -> Judgement:
        if sigils.verified:
            self.printer.print_check("verification", passed=True)
            self._checks.append(_check_json("verification", passed=True, message=""))
            return Judgement(Outcome.DONE)
        doubt = sigils.reason or "it gave no reason"
        self.printer.print_check(f"verification: {doubt}", passed=False)
        self._checks.append(_check_json("verification", passed=False, message=doubt))
        return Judgement(Outcome.RETRIED, f"The verification did not agree: {doubt}")

    # --- records ---------------------------------------------------------------------------------

    def journal(self, entry: JournalEntry, reason: str) -> None:
        """Append an iteration's entry to the journal, update the task's memory, and report.

        The entry includes the check results. A failure to update the task's memory does not end the
        run.
        """
        notes = "\n\n".join(filter(None, [entry.notes, *self._refused_knowledge()]))
        extra = {**entry.extra, **self._take_journal_members()}
        entry = replace(entry, notes=notes, extra=extra)
        journal.append(self.root, entry, self._patterns)
        try:
            self._update_task_memory(entry)
        except RalphError as error:
            self.printer.warn(f"the memory of {entry.task} is incomplete: {error.message}")
        self.printer.print_iteration(entry, redact(reason, self._patterns).text)

    def _refused_knowledge(self) -> list[str]:
        """Return a sentence about each knowledge entry that was not stored, for the next prompt."""
        return [
            f"Knowledge was not stored: {' '.join(filter(None, [entry.title, f'({entry.why})']))}"
            for entry in self._learned
            if entry.change is Change.REFUSED
        ]

    def _take_journal_members(self) -> Mapping[str, object]:
        """Return the iteration's check results and knowledge, and clear the check results."""
        learned = task_insights.knowledge_members(
            [(entry.slug, entry.change) for entry in self._learned]
        )
        members: dict[str, object] = {}
        if self._checks:
            members[CHECKS] = self._checks
        if learned:
            members[task_insights.KNOWLEDGE_MEMBER] = learned
        self._checks = []
        return members

    def _update_task_memory(self, entry: JournalEntry) -> None:
        still_open = prd_file.open_stories(self.root, entry.task)
        progress.append_iteration(
            self.root,
            entry,
            self._learned,
            story="".join(self._open_stories[:1]),
            done_stories=[name for name in self._open_stories if name not in still_open],
            patterns=self._patterns,
        )
        task_insights.extract(
            self.root,
            entry.task,
            run=entry.run,
            iteration=entry.iteration,
            patterns=self._patterns,
        )
        if self._is_in_worktree:
            lessons = promotion.reviewed_lessons(self.root, entry.task, self._patterns)
            worktree_learnings.add_learnings(self.root, lessons)

    def save(self, run: Run) -> Run:
        """Save the redacted state after a step. A run that has ended also gets its record."""
        run = self._redact_run(run)
        if run.status is not RunStatus.RUNNING:
            # The record comes before the state. If the process is killed in between, the run has
            # not ended yet, and recovery writes the record again.
            run_record.write(self.root, run)
        runs.save(self.root, self.saved, run, durable=not run.step)
        self.saved = run
        self.run = run
        self.send_heartbeat()
        return run

    def set_saved(self, run: Run) -> None:
        """Continue with a run that is already on disk."""
        self.saved = run
        self.run = run
        self.send_heartbeat()

    def _redact_run(self, run: Run) -> Run:
        """Redact the text in a run that was written by agents and people."""
        return replace(
            run,
            failure=redact(run.failure, self._patterns).text,
            attempt_failure=redact(run.attempt_failure, self._patterns).text,
            feedback=redact(run.feedback, self._patterns).text,
            words=redact(run.words, self._patterns).text,
            next_model=redact(run.next_model, self._patterns).text,
        )

    # --- stopping and waiting --------------------------------------------------------------------

    def stop(self) -> EndReason | None:
        """Return why a person wants the run to end, or None if nobody does."""
        if self.printer.interrupted():
            return EndReason.INTERRUPTED
        if runs.read_stop_request(self.root, self.run.id):
            return EndReason.STOPPED
        return None

    def must_stop_now(self) -> bool:
        """Return whether a person wants the run to end immediately.

        This is called often while the agent and the criteria run, so it also sends the heartbeat.
        """
        self.send_heartbeat()
        return self.printer.interrupted() or runs.read_stop_request(self.root, self.run.id) == "now"

    def feedback(self, run: Run) -> Run | None:
        """Return the run with the feedback a person gave after Ctrl-C, or None to end the run."""
        if not self.printer.interrupted():
            return None
        try:
            feedback = self.printer.feedback().strip()
        except KeyboardInterrupt:  # a second Ctrl-C is an answer: the work so far is journaled
            return None
        if not feedback:
            return None
        self.printer.clear_interrupt()
        return replace(run, feedback=redact(feedback, self._patterns).text)

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds, or until a person asks the run to stop."""
        while seconds > 0 and self.stop() is None:
            self._sleep(min(_PAUSE_STEP_SECONDS, seconds))
            seconds -= _PAUSE_STEP_SECONDS
            self.send_heartbeat()

    def send_heartbeat(self) -> None:
        """Renew the heartbeat and the claim if they are due. A failure does not stop the agent."""
        if self.saved is None or self.saved.status is not RunStatus.RUNNING:
            return  # the start may still be refused, or the run has ended
        now = time.monotonic()
        if now - self._last_beat >= HEARTBEAT_SECONDS or not self._last_beat:
            self._last_beat = now
            with suppress(RalphError):
                runs.write_heartbeat(self.root, self.run)
        if self.run.task and now - self._last_renewal > LEASE_SECONDS / _RENEWALS_PER_LEASE:
            self._last_renewal = now
            with suppress(RalphError):
                claims.renew(self.root, self.run.task, self.run.id)


def _run_limits(config: Config, run: Run) -> Limits:
    """Return the limits of a run. Usage from before they were last reset does not count."""
    loop = config.loop
    seconds = 0.0
    if loop.max_minutes:
        seconds = loop.max_minutes * _SECONDS_PER_MINUTE + run.past_seconds
    cost = 0.0
    if loop.max_cost:
        cost = loop.max_cost + run.past_cost
    return Limits(loop.max_iterations + run.past_iterations, seconds, cost)


def _explain_open_stories(names: Sequence[str]) -> str:
    return (
        f"the task is not done, because these stories are open: {', '.join(names)}; "
        "report each one that is done with <story-done>"
    )


def _read_sigils(reply: Reply, prompt: str) -> Sigils:
    return read_sigils(
        reply.text,
        prompt=prompt,
        tool_outputs=reply.outputs,
        last_message_start=reply.final,
    )


def _check_json(name: str, passed: bool, message: str, tail: str = "") -> dict[str, object]:
    output = message
    if tail and not passed:
        output = f"{message}\n{tail[-_MAX_CHECK_OUTPUT:]}"
    return {"name": name, "passed": passed, "output": output}
