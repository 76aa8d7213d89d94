"""The Messages API as Claude Code uses it, played from a script.

`POST /v1/messages` answers as a stream or as one object, as asked; `count_tokens` counts; whatever else
the client tries (a HEAD, event logging, a settings look-up) gets an empty object. Proof: `test_harness.py`
drives the real client through it.
"""

import json
from collections.abc import Mapping

from tests.e2e.scripted import Json, ModelServer, Reply, say, sse, strings


class MessagesServer(ModelServer):
    """A scripted model for Claude Code; `summary` is what it answers when a conversation is compacted."""

    summary = "SCRIPTED SUMMARY"

    def prompt_of(self, body: Json) -> str:
        """The strings of the first user message."""
        messages = body.get("messages") or []
        return "\n".join(strings(messages[0].get("content"))) if messages else ""

    def side_question(self, headers: Mapping[str, str], body: Json) -> tuple[str, Reply | None]:
        """Summaries at compaction, quota checks, and titles, which are asked without tools."""
        last = list(strings((body.get("messages") or [{}])[-1].get("content")))[-1:]
        if last and "<analysis>" in last[0] and "</summary>" in last[0]:
            return "summary", say(f"<analysis>-</analysis>\n<summary>{self.summary}</summary>")
        if body.get("max_tokens") == 1:
            return "quota", say("ok")
        if not body.get("tools"):
            return "title", say('{"title": "Scripted"}')
        return "step", None

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """Play one step, count tokens, or be harmless."""
        route = path.partition("?")[0]
        if route == "/v1/messages/count_tokens":
            size = len(json.dumps(body)) // 4
            return 200, "application/json", json.dumps({"input_tokens": size}).encode()
        if route != "/v1/messages":
            self.passed_by(path)
            return 200, "application/json", b"{}"
        request, reply = self.take(path, headers, body)
        if reply.status != 200:
            error = {
                "type": "error",
                "error": {"type": "api_error", "message": f"scripted failure {reply.status}"},
            }
            return reply.status, "application/json", json.dumps(error).encode()
        message = _message(request.number, str(body.get("model")), reply)
        if body.get("stream"):
            return 200, "text/event-stream", sse(_events(message))
        return 200, "application/json", json.dumps(message).encode()


def _message(number: int, model: str, reply: Reply) -> Json:
    content: list[Json] = (
        [{"type": "text", "text": reply.text}] if reply.text or not reply.calls else []
    )
    content += [
        {
            "type": "tool_use",
            "id": f"toolu_{number:04}_{place:02}",
            "name": call.tool,
            "input": dict(call.arguments),
        }
        for place, call in enumerate(reply.calls)
    ]
    return {
        "id": f"msg_{number:04}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": reply.tokens, "output_tokens": 10},
    }


def _events(message: Json) -> list[tuple[str, Json]]:
    """The stream that builds this message up, one delta a block."""
    opening = message | {"content": [], "stop_reason": None}
    events: list[tuple[str, Json]] = [
        ("message_start", {"type": "message_start", "message": opening})
    ]
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        for kind, extra in (
            ("content_block_start", {"content_block": empty}),
            ("content_block_delta", {"delta": delta}),
            ("content_block_stop", {}),
        ):
            events.append((kind, {"type": kind, "index": index} | extra))
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(
        ("message_delta", {"type": "message_delta", "delta": ending, "usage": message["usage"]})
    )
    events.append(("message_stop", {"type": "message_stop"}))
    return events
