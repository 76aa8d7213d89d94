"""An agent of our own behind the Agent Client Protocol; the first argument names what it does.

It is written in the protocol's own JSON lines, without the SDK: hundreds of classes take a second to import. It asks
for permission before it writes and then follows the answer, so that a test sees on the disk whether the answer was
right. What it received is written to `heard.json` in the folder above the session's.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OPTIONS = [
    {"optionId": "ever", "name": "Always", "kind": "allow_always"},
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]
MODES = [{"id": name, "name": name} for name in ("default", "acceptEdits", "plan", "yolo")]
MODELS = [{"value": name, "name": name} for name in ("small", "large")]
MODEL_OPTION = {
    "id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "small", "options": MODELS,
}  # fmt: skip


class RequestError(Exception):
    """A request that is answered with an error of the protocol."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


class Player:
    """Plays one of the parts below."""

    def __init__(self, part: str) -> None:
        self.part = part
        self.heard: dict[str, Any] = {"cwd": str(Path.cwd()), "run": os.environ.get("RALPH_RUN")}
        self.folder = Path.cwd()
        self.session = "s-1"
        self.cancelled = False

    def serve(self) -> None:
        """Answer requests until the client closes its end."""
        for message in self.messages():
            if "id" in message:
                answer = getattr(self, message["method"].replace("/", "_"))
                try:
                    send(id=message["id"], result=answer(**message["params"]))
                except RequestError as error:
                    send(id=message["id"], error=error.error)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Return each message of the client; a cancellation is noted at once."""
        for line in sys.stdin:
            message = json.loads(line)
            if message.get("method") == "session/cancel":
                self.note(cancelled=True)
                self.cancelled = True
            yield message

    def note(self, **more: object) -> None:
        self.heard |= more
        (self.folder.parent / "heard.json").write_text(json.dumps(self.heard), encoding="utf-8")

    def initialize(self, *, protocolVersion: int, **more: Any) -> object:  # noqa: N803 - a field of the protocol
        if self.part == "dies":
            sys.stderr.write("no license found\n")
            sys.stderr.flush()
            os._exit(3)
        client = more.get("clientCapabilities") or {}
        files = client.get("fs") or {}
        self.note(writes=bool(files.get("writeTextFile")), terminal=bool(client.get("terminal")))
        can = {"loadSession": self.part != "forgets"}
        return {"protocolVersion": protocolVersion, "agentCapabilities": can}

    def session_new(self, *, _meta: Any = None, **_: Any) -> object:
        if self.part == "locked":
            raise RequestError(-32000, "Authentication required")
        self.note(meta=(_meta or {}).get("claudeCode"))
        modes = {"currentModeId": "default", "availableModes": MODES}
        return {"sessionId": self.session, "modes": modes, "configOptions": [MODEL_OPTION]}

    def session_load(self, *, sessionId: str, _meta: Any = None, **_: Any) -> object:  # noqa: N803 - a field
        self.session = sessionId
        self.say("HISTORY")
        self.note(loaded=sessionId, meta=(_meta or {}).get("claudeCode"))
        return {}

    def session_set_mode(self, *, modeId: str, **_: Any) -> object:  # noqa: N803 - a field of the protocol
        self.note(mode=modeId)
        return {}

    def session_set_config_option(self, *, value: Any, **_: Any) -> object:
        self.note(model=value)
        return {"configOptions": []}

    def session_prompt(self, *, prompt: Any, **_: Any) -> object:
        self.note(prompt=prompt[0]["text"])
        getattr(self, f"play_{self.part}", self.play_talks)()
        stop = (
            "cancelled" if self.cancelled else "refusal" if self.part == "refuses" else "end_turn"
        )
        return {"stopReason": stop}

    def update(self, event: str, **fields: object) -> None:
        update = {"sessionUpdate": event, **fields}
        send(method="session/update", params={"sessionId": self.session, "update": update})

    def say(self, text: str) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def play_talks(self) -> None:
        self.say("one ")
        self.say("two")
        self.update("usage_update", used=1, size=2, cost={"amount": 0.5, "currency": "USD"})

    def play_fails(self) -> None:
        self.say("half")
        self.attempt(1, "read", "a.txt")
        self.say("API Error: 529 Overloaded")
        raise RequestError(-32603, "Internal error", {"details": "API Error: 529 Overloaded"})

    def play_shouts(self) -> None:
        self.say("x" * 10_000_000)

    def play_noise(self) -> None:
        sys.stdout.write("this is no JSON\n")
        self.say("fine")

    def play_hangs(self) -> None:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)",
            ],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
        )
        self.note(pids=[os.getpid(), child.pid])
        self.say("hanging")
        next(message for message in self.messages() if self.cancelled)

    def play_deaf(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.note(pids=[os.getpid()])
        self.say("hanging")
        time.sleep(600)

    def play_works(self) -> None:
        self.say("I work.")
        self.attempt(1, "edit", "inside.txt")
        self.attempt(2, "edit", "../outside.txt")
        self.attempt(3, "execute", "")
        self.attempt(4, "read", "inside.txt")
        self.attempt(5, "edit", "")
        self.say("DONE")

    def attempt(self, number: int, kind: str, name: str) -> None:
        """Ask for permission, and do it if allowed."""
        path = str(self.folder / name) if name else ""
        call = {
            "toolCallId": f"call_{number}",
            "kind": kind,
            "locations": [{"path": path}] if path else [],
        }
        self.update("tool_call", title=f"{kind} {name}".strip(), status="pending", **call)
        request = {"sessionId": self.session, "toolCall": call, "options": OPTIONS}
        send(id=number, method="session/request_permission", params=request)
        response = next(message for message in self.messages() if message.get("id") == number)
        chosen = response["result"]["outcome"].get("optionId", "none")
        self.note(answers=[*self.heard.get("answers", []), chosen])
        if chosen == "yes" and kind == "edit" and path:
            Path(path).write_text("written", encoding="utf-8")
        status = "completed" if chosen in ("yes", "ever") else "failed"
        content = [{"type": "content", "content": {"type": "text", "text": f"{kind}: {status}"}}]
        self.update(
            "tool_call_update", toolCallId=call["toolCallId"], status=status, content=content
        )


def send(**message: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    Player(sys.argv[1]).serve()
