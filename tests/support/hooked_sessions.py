"""Sessions of Claude Code, told event by event through the hook, without a process for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.world import World, call_hook, payload


@dataclass(frozen=True, slots=True)
class HookedSession:
    """A session whose events reach the hook in the order in which its methods are called."""

    world: World
    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables, such as those of a loop."""

    def send(self, event: str, **members: object) -> bytes:
        """Send one event, and return what the hook prints."""
        sent = payload(event, session_id=self.name, cwd=str(self.world.root), **members)
        return call_hook(event, sent, self.world.env | dict(self.variables)).stdout

    def start(self) -> None:
        self.send("SessionStart", source="startup")

    def prompt(self, text: str) -> None:
        self.send("UserPromptSubmit", prompt=text)

    def fail(self, command: str, output: str, code: int = 1) -> None:
        """Run a command that fails."""
        error = f"Exit code {code}\n{output}"
        self.send("PostToolUseFailure", tool_input={"command": command}, error=error)

    def succeed(self, command: str, output: str = "") -> None:
        """Run a command that passes."""
        response = {"stdout": output, "stderr": "", "interrupted": False}
        self.send("PostToolUse", tool_input={"command": command}, tool_response=response)

    def edit(self, file: str, before: str = "x = 1", after: str = "x = 2") -> None:
        """Replace a line in a file of the project."""
        path = str(self.world.root / file)
        patch = {"lines": [f"-{before}", f"+{after}"]}
        self.send(
            "PostToolUse",
            tool_name="Edit",
            tool_input={"file_path": path, "old_string": before, "new_string": after},
            tool_response={"filePath": path, "structuredPatch": [patch]},
        )

    def stop(self, message: str = "Done.") -> None:
        """End the turn with the agent's last message."""
        self.send("Stop", last_assistant_message=message)
