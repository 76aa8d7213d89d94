"""The Chat Completions API, played from a script, for every client that takes an OpenAI-compatible endpoint.

A request without tools is a side question (a title, a summary) and uses up no step. Proof: `test_clients.py`.
"""

import json
from collections.abc import Mapping

from tests.e2e.scripted import Json, ModelServer, Reply, say, strings


class CompletionsServer(ModelServer):
    """A scripted model for OpenCode, Qwen Code, Copilot CLI and Cline."""

    def prompt_of(self, body: Json) -> str:
        """The strings of every user message."""
        items = body.get("messages") or []
        return "\n".join(
            string for item in items if item.get("role") == "user" for string in strings(item)
        )

    def side_question(self, headers: Mapping[str, str], body: Json) -> tuple[str, Reply | None]:
        """Only a conversation comes with tools."""
        return ("step", None) if body.get("tools") else ("side", say("A title"))

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """Play one step, or be harmless."""
        if not path.partition("?")[0].endswith("/chat/completions"):
            self.passed_by(path)
            return 200, "application/json", b"{}"
        request, reply = self.take(path, headers, body)
        head = {
            "id": f"chatcmpl-{request.number}",
            "created": 1,
            "model": body.get("model", "scripted"),
        }
        usage = {
            "prompt_tokens": reply.tokens,
            "completion_tokens": 10,
            "total_tokens": reply.tokens + 10,
        }
        message = _message(request.number, reply)
        ends = "tool_calls" if reply.calls else "stop"
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": ends}
            whole = head | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return 200, "application/json", json.dumps(whole).encode()
        head |= {"object": "chat.completion.chunk"}
        chunks = [
            head | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            head | {"choices": [{"index": 0, "delta": {}, "finish_reason": ends}], "usage": usage},
        ]
        lines = [*map(json.dumps, chunks), "[DONE]"]
        return 200, "text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode()


def _message(number: int, reply: Reply) -> Json:
    calls = [
        {
            "index": place,
            "id": f"call_{number:04}_{place:02}",
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(dict(call.arguments))},
        }
        for place, call in enumerate(reply.calls)
    ]
    return {"role": "assistant", "content": reply.text, **({"tool_calls": calls} if calls else {})}
