"""Prepare a run: find its agent and criteria, and check its goal or task.

Nothing is written here, so a run that cannot start leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ralph.core import ids
from ralph.core.errors import Conflict, Refused, UsageError
from ralph.core.record import CriterionKind
from ralph.core.settings import Config, CriterionSetting
from ralph.core.work import Agent, TaskStatus, ignore_text
from ralph.loop import criteria_parser, detect
from ralph.loop.agents import choice
from ralph.loop.criteria import MARKER, Criterion
from ralph.loop.request import LoopRequest
from ralph.privacy.privacy import redact
from ralph.storage import task_files
from ralph.storage.board import is_live, status_of
from ralph.tasks import feature, worktree

_MAX_TITLE_LENGTH = 100  # characters of a task's title


class LoopPlan(NamedTuple):
    """The agent, the criteria and the redacted goal of a run."""

    agent: Agent
    criteria: tuple[Criterion, ...]
    from_options: bool  # whether the criteria were given with --criteria
    goal: str = ""
    skipped: tuple[str, ...] = ()  # criteria that are not checked


def prepare(
    root: Path,
    config: Config,
    request: LoopRequest,
    *,
    resumed: bool = False,
    agent: Agent | None = None,
    tell: Callable[[str], None] = ignore_text,
    untrusted: Sequence[str] = (),
) -> LoopPlan:
    """Find the agent (unless one is given) and the criteria, and check the goal or task.

    `untrusted` describes the configured criteria that the user has not trusted. Nothing is written.
    Raises UsageError if the options contradict each other, Refused if the task is done or a
    criterion is not trusted, and Conflict if another run is working on the task.
    """
    goal = _read_goal(config, request)
    if request.feature:
        feature.find(root, request.feature)
    if not resumed:
        name = request.task or find_open_task(root, goal)
        if name:
            check_task_is_free(root, name)
    skipped = _skipped_criteria(request, untrusted)
    detected = detect.detect_commands(root)
    required = _required_criteria(config, request, has_tests=CriterionKind.TEST_PASS in detected)
    checks = criteria_parser.add_detected_commands(required, detected)
    if agent is None:
        agent = choice.loop_agent(root, config.loop, tell)
    return LoopPlan(agent, checks, bool(request.criteria), goal, skipped)


def _skipped_criteria(request: LoopRequest, untrusted: Sequence[str]) -> tuple[str, ...]:
    """Return the configured criteria that are skipped.

    Raises Refused if there are any and the request does not allow it.
    """
    if request.criteria or not untrusted:
        return ()
    if not request.skip_untrusted:
        raise Refused(
            f"criteria that you have not trusted cannot be checked: {', '.join(untrusted)}",
            hint="`ralph trust` shows and allows them; --skip-untrusted starts without them, "
            "and the run then ends as unchecked",
        )
    return tuple(untrusted)


def _read_goal(config: Config, request: LoopRequest) -> str:
    """Return the redacted goal of a request, or "" if it has none."""
    given_goal = request.goal.strip()
    targets = [target for target in (given_goal, request.task, request.feature) if target]
    if len(targets) > 1:
        raise UsageError(
            "a goal, --task and --feature cannot be used together", hint="give one of them, or none"
        )
    goal = redact(given_goal, config.privacy.patterns).text.strip()
    if given_goal and not goal:
        raise UsageError(
            "the whole goal is private", hint="say outside the private tags what is to be done"
        )
    return goal


def _required_criteria(
    config: Config, request: LoopRequest, *, has_tests: bool
) -> tuple[Criterion, ...]:
    """Return the criteria from the options, or from the config, or just the project's tests."""
    if request.criteria:
        texts = [text for text in request.criteria if text.strip().lower() != "none"]
        return criteria_parser.parse_criteria(texts)
    if config.loop.success_criteria:
        return tuple(map(_configured_criterion, config.loop.success_criteria))
    if has_tests:
        return (Criterion(CriterionKind.TEST_PASS),)
    return ()


def _configured_criterion(setting: CriterionSetting) -> Criterion:
    return Criterion(
        setting.type,
        setting.command,
        expected=setting.expected_exit_code,
        marker=setting.marker or MARKER,
        timeout=setting.timeout,
    )


def check_task_is_free(root: Path, name: str, run: str = "") -> None:
    """Raise Refused if a task is done, or Conflict if a run other than `run` is working on it."""
    work = task_files.find_task(root, name).task
    worktree.working_folder(root, work)  # raises if the task's worktree cannot be used
    if status_of(work) is TaskStatus.DONE:
        raise Refused(f"{name} is done", hint=f"`ralph task set {name} pending` reopens it")
    claim = work.claim
    if claim is not None and claim.run != run and is_live(claim, ids.now()):
        hint = f"stop it with `ralph loop stop {claim.run}`, then try again"
        raise Conflict(f"{claim.run} works on {name}", hint=hint)


def find_open_task(root: Path, goal: str) -> str:
    """Return the id of the unfinished task for a goal, or "" if there is none."""
    if not goal:
        return ""
    wanted = title_and_description(goal)
    for work in task_files.read_board(root).tasks:
        is_open = status_of(work) not in (TaskStatus.DONE, TaskStatus.FAILED)
        if is_open and (work.title, work.description) == wanted:
            return work.id
    return ""


def title_and_description(goal: str) -> tuple[str, str]:
    """Return the title and description of the task that a goal is turned into."""
    title = goal.split("\n", 1)[0]
    if len(title) > _MAX_TITLE_LENGTH:
        title = title[: _MAX_TITLE_LENGTH - 1].rstrip() + "…"
    if goal == title:
        return title, ""
    return title, goal
