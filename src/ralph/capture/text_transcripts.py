"""Read the transcripts that contain tool calls as text: Cline (and Roo), and Aider.

Cline writes a call as tags in the agent's message, and its result into the next user message:

    <execute_command><command>make test</command></execute_command>
    [execute_command for 'make test'] Result: ...

Aider writes Markdown. `####` begins a line from the person, and `>` a line that Aider itself
printed:

    #### fix the build
    > Running make test
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from ralph.capture.events import Json, response_text, text_member
from ralph.capture.transcripts import (
    Conversation,
    TranscriptEvent,
    claude_call,
    content_blocks,
    log_time,
    with_exit_code,
)

# --- Cline ----------------------------------------------------------------------------------------

_CLINE_TASK = re.compile(r"<(task|feedback|user_message|answer)>\s*(.*?)\s*</\1>", re.DOTALL)
_CLINE_TOOL = re.compile(
    r"<(execute_command|read_file|write_to_file|replace_in_file|apply_diff|search_files|list_files)>"
    r"(.*?)</\1>",
    re.DOTALL,
)
_CLINE_PARAMETER = re.compile(r"<(command|path|content|diff|regex)>\n?(.*?)\n?</\1>", re.DOTALL)
_CLINE_RESULT = re.compile(r"\[\w+(?: for '.*?')?\] Result:\s*")
_CLINE_THINKING = re.compile(r"(?s)<thinking>.*?</thinking>")
_MAX_EXIT_SEARCH = 400  # characters of an output to search for an exit code
_EXIT = re.compile(
    r"(?:exit code|exited with code|exit status)[: ]+([1-9]\d{0,2})\b", re.IGNORECASE
)


def read_cline(
    messages: Iterable[Json], session: str, cwd: str, start: object
) -> Iterator[TranscriptEvent]:
    """Read a Cline or Roo task, which consists of messages in Anthropic's format.

    Tool calls may be content blocks, or tags in the text such as `<execute_command>`.
    """
    thread = Conversation(session, cwd)
    thread.at = log_time(start)
    tag_call = ""  # the id given to the last call written as tags
    for number, message in enumerate(messages):
        at = log_time(message.get("ts"))
        is_agent = message.get("role") == "assistant"
        blocks = content_blocks(message.get("content"))
        for block in blocks:
            text = text_member(block, "text")
            if block.get("type") == "tool_use":
                name, parameters = claude_call(text_member(block, "name"), block.get("input"))
                thread.call(name, parameters, text_member(block, "id"))
            elif block.get("type") == "tool_result":
                output = response_text(block.get("content"))
                yield from _cline_result(thread, at, text_member(block, "tool_use_id"), output)
            elif is_agent:
                if _read_cline_tags(thread, text, f"text-{number}"):
                    tag_call = f"text-{number}"
                thread.answer(at, _CLINE_TOOL.sub("", _CLINE_THINKING.sub("", text)))
            else:
                yield from _read_cline_user(thread, at, text, blocks, tag_call)
    yield from thread.end()


def _read_cline_tags(thread: Conversation, text: str, call: str) -> bool:
    """Add the tool calls written as tags in `text`, and return whether there are any."""
    found = False
    for tool in _CLINE_TOOL.finditer(text):
        name, parameters = claude_call(tool[1], dict(_CLINE_PARAMETER.findall(tool[2])))
        thread.call(name, parameters, call)
        found = True
    return found


def _read_cline_user(
    thread: Conversation, at: str, text: str, blocks: list[Json], tag_call: str
) -> Iterator[TranscriptEvent]:
    title = _CLINE_RESULT.match(text)
    if title:
        output = text[title.end() :]
        if not output and len(blocks) > 1:
            output = text_member(blocks[1], "text")
        yield from _cline_result(thread, at, tag_call, output)
        return
    task = _CLINE_TASK.search(text)
    if task:
        yield from thread.prompt(at, task[2])


def _cline_result(
    thread: Conversation, at: str, call: str, output: str
) -> Iterator[TranscriptEvent]:
    failed = False
    code = _EXIT.search(output[:_MAX_EXIT_SEARCH])
    if code:
        output, failed = with_exit_code(output, int(code[1]))
    yield from thread.result(at, call, output, failed=failed)


# --- Aider ----------------------------------------------------------------------------------------

_AIDER_START = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_AIDER_EDIT = re.compile(r"> Applied edit to (.{1,500})")
_AIDER_RUN = re.compile(r"> Running (.{1,1000})")


_AIDER_TOOLS = ((_AIDER_EDIT, "Edit", "file_path"), (_AIDER_RUN, "Bash", "command"))
"""What Aider prints about its own actions, with the tool and parameter that stand for each."""


def read_aider(
    lines: Iterable[str], cwd: str, session_of: Callable[[str], str]
) -> Iterator[TranscriptEvent]:
    """Read Aider's chat history, given line by line.

    `####` begins a line from the person, and `>` a line that Aider itself printed. `session_of`
    turns a chat's start time into a session id.
    """
    thread = Conversation(cwd=cwd)
    prompt: list[str] = []
    answer: list[str] = []
    fenced = False

    def end_turn() -> Iterator[TranscriptEvent]:
        if prompt:
            yield from thread.prompt(thread.at, "\n".join(prompt))
        thread.answer(thread.at, "\n".join(answer).strip())
        prompt.clear()
        answer.clear()

    for line in lines:
        start = None if fenced else _AIDER_START.match(line)
        if start:
            yield from end_turn()
            yield from thread.end()
            thread = Conversation(session_of(start[1]), cwd)
            thread.at = log_time(start[1])
        elif not fenced and line.startswith("#### "):
            if answer:
                yield from end_turn()
            prompt.append(line[5:].strip())
        elif not fenced and line.startswith(">"):
            for pattern, name, key in _AIDER_TOOLS:
                match = pattern.match(line)
                if match and thread.session:
                    yield from end_turn()
                    yield thread.tool(thread.at, name, {key: match[1].strip()}, "")
        elif prompt or answer:
            if line.startswith("```"):
                fenced = not fenced
            answer.append(line)
    yield from end_turn()
    yield from thread.end()
