"""The Responses API as Codex uses it, played from a script.

`POST .../responses` answers with a stream of finished items, which is all that the client reads of it;
the list of models is empty, and everything else gets an empty object. A call's arguments are a string of
JSON here. Proof: `test_harness.py` drives the real client through it.
"""

import json
from collections.abc import Mapping

from tests.e2e.scripted import Json, ModelServer, Reply, say, sse, strings


class ResponsesServer(ModelServer):
    """A scripted model for Codex; `summary` is what it answers when a conversation is compacted."""

    summary = "SCRIPTED SUMMARY"

    def prompt_of(self, body: Json) -> str:
        """The strings of every user message: the client puts its own ahead of the prompt."""
        items = body.get("input") or []
        return "\n".join(
            string for item in items if item.get("role") == "user" for string in strings(item)
        )

    def side_question(self, headers: Mapping[str, str], body: Json) -> tuple[str, Reply | None]:
        """A request that is no turn of the conversation says what it is in its metadata."""
        kind = str(
            json.loads(headers.get("x-codex-turn-metadata", "{}")).get("request_kind", "turn")
        )
        return ("step", None) if kind == "turn" else (kind, say(self.summary))

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """Play one step, or be harmless."""
        if not path.partition("?")[0].endswith("/responses"):
            self.passed_by(path)
            return 200, "application/json", b"{}"
        request, reply = self.take(path, headers, body)
        if reply.status != 200:
            error = {"error": {"message": f"scripted failure {reply.status}", "code": "scripted"}}
            return reply.status, "application/json", json.dumps(error).encode()
        return 200, "text/event-stream", sse(_events(request.number, reply))


def _items(number: int, reply: Reply) -> list[Json]:
    items: list[Json] = []
    if reply.text or not reply.calls:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append(
            {"type": "message", "id": f"msg_{number:04}", "role": "assistant", "content": content}
        )
    for place, call in enumerate(reply.calls):
        group, _, name = call.tool.rpartition(
            "/"
        )  # a server's tools are named with it: mcp__ralph/search
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{number:04}_{place:02}",
                "call_id": f"call_{number:04}_{place:02}",
                "name": name,
                "arguments": json.dumps(dict(call.arguments)),
                **({"namespace": group} if group else {}),
            }
        )
    return items


def _events(number: int, reply: Reply) -> list[tuple[str, Json]]:
    opening = {
        "id": f"resp_{number:04}",
        "object": "response",
        "status": "in_progress",
        "output": [],
    }
    items = _items(number, reply)
    usage = {
        "input_tokens": reply.tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.tokens + 10,
    }
    events: list[tuple[str, Json]] = [
        ("response.created", {"type": "response.created", "response": opening})
    ]
    for index, item in enumerate(items):
        kind = "response.output_item.done"
        events.append((kind, {"type": kind, "output_index": index, "item": item}))
    ending = opening | {"status": "completed", "output": items, "usage": usage}
    events.append(("response.completed", {"type": "response.completed", "response": ending}))
    return events
