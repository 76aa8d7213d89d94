"""A scripted model that changes files as Codex wants it."""

import json
from collections.abc import Mapping

from tests.e2e.responses_server import ResponsesServer
from tests.e2e.scripted import Json, Reply, use


class PatchingServer(ResponsesServer):
    """A scripted model whose calls of `apply_patch` are free text."""

    def answer(self, path: str, headers: Mapping[str, str], body: Json) -> tuple[int, str, bytes]:
        """As the others answer, with the form of these calls changed."""
        status, kind, said = super().answer(path, headers, body)
        lines = said.decode("utf-8").split("\n")
        return status, kind, "\n".join(map(_as_free_text, lines)).encode()


def _as_free_text(line: str) -> str:
    if not line.startswith("data: ") or '"apply_patch"' not in line:
        return line
    event = json.loads(line.removeprefix("data: "))
    for item in [event["item"]] if "item" in event else event["response"]["output"]:
        if item.get("name") == "apply_patch":
            item |= {
                "type": "custom_tool_call",
                "input": json.loads(item.pop("arguments"))["input"],
            }
    return f"data: {json.dumps(event)}"


def added(path: str, text: str) -> Reply:
    """A step: Codex adds a file of one line."""
    return use(
        "apply_patch", input=f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch\n"
    )
