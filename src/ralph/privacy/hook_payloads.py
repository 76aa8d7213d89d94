"""Redact and shorten the payload of a hook, so that it may be appended to a log.

A payload is the JSON object that a coding agent sends. Its strings are redacted in order, secrets
are found by the names of members, and the result is shortened until it fits into one log line. The
lines of a patch are judged together, because a secret and its name may be on two of them. The
output of a command is judged together with the command, which may reveal that it prints a secret.
An edit of a file with private sections is dropped, because the edited lines may come from one of
them.
"""

from __future__ import annotations

from functools import partial

from ralph.lean import TYPE_CHECKING
from ralph.lean.secret_prefilter import prints_secret
from ralph.privacy.json_values import all_texts, map_texts, redact_members
from ralph.privacy.private_parts import has_private_parts
from ralph.privacy.redactor import Redactor
from ralph.privacy.secret_phrases import printed_secrets
from ralph.privacy.secrets import merge_spans, replace_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Json = dict[str, object]

_MAX_TEXT = (
    12_000  # characters, several times what an observation keeps: its outcome shows at the end
)
_MAX_MESSAGE = 64_000  # characters of a prompt or an answer, which sessions show in full
_MAX_LINE = 96 * 1024  # characters in all strings of a payload together
_SHORTER_TEXTS = (
    2_000,
    200,
    20,
)  # limits to try, one after the other, for a payload that is too large
_PAYLOAD_WINDOW = 16_000
_MESSAGE_WINDOW = _MAX_MESSAGE // 2  # a message of this length is searched as a whole
_MESSAGE_MEMBERS = ("prompt", "last_assistant_message")
_EDIT_MEMBERS = ("old_string", "new_string", "content", "new_source", "edits")
_ANSWER_MEMBERS = ("oldString", "newString", "content")
_RESULT_FLAGS = ("filePath", "interrupted", "isError", "is_error")
_COMMAND_MEMBERS = ("command", "cmd", "script")
_EXIT_LINE = "Exit code "  # the beginning of the line above the output of a command that failed
_OUTPUT_MEMBERS = ("tool_response", "error")  # of a command that succeeded, or that failed
_NAME_MEMBERS = ("session_id", "cwd", "hook_event_name", "tool_name")


def redact_payload(payload: Json, patterns: Sequence[str] = ()) -> Json:
    """Return a hook's payload redacted and shortened.

    An edit is dropped if its texts or its file contain private sections.
    """
    payload = _without_private_edit(payload)
    redactor = Redactor(patterns, tolerant=True)
    payload = _redact_hunks(payload, redactor)
    payload = _redact_output(payload)
    messages = [payload.get(name) for name in _MESSAGE_MEMBERS]

    def redact_text(text: str) -> str:
        if text in messages:
            return _shorten(redactor(text, _MESSAGE_WINDOW), _MAX_MESSAGE)
        return _shorten(redactor(text, _PAYLOAD_WINDOW), _MAX_TEXT)

    result = map_texts(payload, redact_text)
    if redactor.astray and redactor.open:
        # A tag opens in one text and closes in an earlier one, so nobody knows what is private.
        result = {
            name: payload[name] for name in _NAME_MEMBERS if isinstance(payload.get(name), str)
        }
    result = redact_members(result, patterns)
    for longest in _SHORTER_TEXTS:
        if sum(map(len, all_texts(result))) <= _MAX_LINE:
            break
        result = map_texts(result, partial(_shorten, longest=longest))
    redacted = result if isinstance(result, dict) else {}
    session = payload.get("session_id")
    if isinstance(session, str):  # it may have been shortened or dropped above
        redacted["session_id"] = _shorten(Redactor(patterns, tolerant=True)(session), _MAX_TEXT)
    return redacted


def _shorten(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters left out ...]\n{text[-half:]}"


def _without_private_edit(payload: Json) -> Json:
    """Drop the original file from an edit's payload.

    The edit itself is dropped as well if any of its texts has private sections.
    """
    parameters = payload.get("tool_input")
    if not isinstance(parameters, dict):
        return payload
    answer = payload.get("tool_response")
    edits = [parameters[name] for name in _EDIT_MEMBERS if name in parameters]
    if isinstance(answer, dict):
        edits += [answer.get("originalFile"), _patched_text(answer)]
        answer = _without_members(answer, ("originalFile",))
    patches = [text for text in all_texts(list(parameters.values())) if "*** Begin Patch" in text]
    if any(map(_is_private_patch, patches)):
        parameters = {"input": "\n".join(_patch_headers(patches))}
    elif any(map(has_private_parts, all_texts(edits))):
        parameters = _without_members(parameters, _EDIT_MEMBERS)
        answer = _result_flags(answer)
    result = {**payload, "tool_input": parameters}
    if "tool_response" in payload:
        result["tool_response"] = answer
    return result


def _redact_hunks(payload: Json, redactor: Redactor) -> Json:
    """Redact the patch in the answer to an edit, one hunk at a time.

    If it has a secret, the edit's other texts are dropped. They repeat lines of the patch, and may
    have the secret without the line that names it.
    """
    parameters = payload.get("tool_input")
    answer = payload.get("tool_response")
    if not isinstance(parameters, dict) or not isinstance(answer, dict):
        return payload
    hunks = answer.get("structuredPatch")
    if not isinstance(hunks, list):
        return payload
    redacted = [_redact_hunk(hunk, redactor) for hunk in hunks]
    if redacted == hunks:
        return payload
    parameters = _without_members(parameters, _EDIT_MEMBERS)
    answer = _without_members(answer, _ANSWER_MEMBERS)
    answer["structuredPatch"] = redacted
    return {**payload, "tool_input": parameters, "tool_response": answer}


def _redact_output(payload: Json) -> Json:
    """Redact the output of a command that prints a secret, such as `openssl rand`.

    Only the command reveals what such an output is.
    """
    parameters = payload.get("tool_input")
    outputs = [name for name in _OUTPUT_MEMBERS if name in payload]
    if not isinstance(parameters, dict) or not outputs:
        return payload
    commands = [parameters[name] for name in _COMMAND_MEMBERS if name in parameters]
    command = " ".join(all_texts(commands))
    if not prints_secret(command):
        return payload

    def redact_text(text: str) -> str:
        first_line, newline, rest = text.partition("\n")
        if first_line.startswith(_EXIT_LINE):
            return first_line + newline + redact_output(rest)
        return redact_output(text)

    def redact_output(output: str) -> str:
        return replace_spans(output, merge_spans(printed_secrets(command, output)))

    redacted = {name: map_texts(payload[name], redact_text) for name in outputs}
    return {**payload, **redacted}


def _without_members(value: Json, names: Sequence[str]) -> Json:
    return {name: member for name, member in value.items() if name not in names}


def _redact_hunk(hunk: object, redactor: Redactor) -> object:
    if not isinstance(hunk, dict):
        return hunk
    lines = hunk.get("lines")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return hunk
    return {**hunk, "lines": redactor.redact_hunk(lines)}


def _patched_text(answer: Json) -> str:
    """Return the lines of an edit's patch without the sign at the start of each."""
    lines = []
    for hunk in _as_list(answer.get("structuredPatch")):
        if isinstance(hunk, dict):
            lines += [line[1:] for line in _as_list(hunk.get("lines")) if isinstance(line, str)]
    return "\n".join(lines)


def _is_private_patch(patch: str) -> bool:
    return has_private_parts("\n".join(line[1:] for line in patch.split("\n")))


def _patch_headers(patches: Iterable[str]) -> Iterator[str]:
    for patch in patches:
        for line in patch.split("\n"):
            if line.startswith("*** "):
                yield line


def _result_flags(answer: object) -> object:
    if not isinstance(answer, dict):
        return ""
    return {name: value for name, value in answer.items() if name in _RESULT_FLAGS}


def _as_list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    return []
