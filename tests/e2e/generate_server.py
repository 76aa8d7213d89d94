"""Gemini's generateContent API, played from a script.

`POST .../models/M:streamGenerateContent` answers with one event; what asks for JSON is a side question of the client's.
"""

import json
from collections.abc import Mapping

from tests.e2e.scripted import Json, ModelServer, Reply, say, strings


class GenerateServer(ModelServer):
    """A scripted model for Gemini CLI."""

    def prompt_of(self, body: Json) -> str:
        """The strings of every message of the user's."""
        items = body.get("contents") or []
        return "\n".join(
            string for item in items if item.get("role") == "user" for string in strings(item)
        )

    def side_question(self, headers: Mapping[str, str], body: Json) -> tuple[str, Reply | None]:
        """Only a conversation comes with tools."""
        return ("step", None) if body.get("tools") else ("side", say("{}"))

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """Play one step, or be harmless."""
        verb = path.partition("?")[0].rpartition(":")[2]
        if verb not in ("streamGenerateContent", "generateContent"):
            self.passed_by(path)
            return 200, "application/json", b'{"totalTokens": 100}'
        # the conversation is read where the other APIs have it
        body = body | {"messages": body.get("contents"), "system": body.get("systemInstruction")}
        reply = self.take(path, headers, body)[1]
        parts: list[Json] = [{"text": reply.text}] if reply.text or not reply.calls else []
        parts += [
            {"functionCall": {"name": call.tool, "args": dict(call.arguments)}}
            for call in reply.calls
        ]
        usage = {
            "promptTokenCount": reply.tokens,
            "candidatesTokenCount": 10,
            "totalTokenCount": reply.tokens + 10,
        }
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "index": 0,
        }
        said = json.dumps({"candidates": [candidate], "usageMetadata": usage})
        if verb == "generateContent":
            return 200, "application/json", said.encode()
        return 200, "text/event-stream", f"data: {said}\n\n".encode()
