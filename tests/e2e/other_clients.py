"""The clients besides Claude Code and Codex, each in a home and a project of its own, against a scripted model.

What differs is how a client is started and pointed at the server, and how its model writes a file and runs a command.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.e2e.clients import LONGEST_RUN, Client, Run, _written
from tests.e2e.completions_server import CompletionsServer
from tests.e2e.generate_server import GenerateServer
from tests.e2e.install_clients import CLINE, COPILOT, GEMINI, OPENCODE, QWEN, Package
from tests.e2e.loops import node
from tests.e2e.scripted import ModelServer, Reply, use


class Other(Client, ABC):
    """A client that is run with one prompt."""

    host: ClassVar[str]
    package: ClassVar[Package]
    api: ClassVar[type[ModelServer]] = CompletionsServer
    settings: ClassVar[str]
    """The file with the user's own settings, below the home."""
    is_script = True
    """It is a JavaScript file, which Node runs."""

    def __init__(self, program: Path, folder: Path, server: ModelServer) -> None:
        super().__init__(program, folder, server)
        self.environment |= self.quiet(f"{server.url}/v1")
        # as a person has formatted it
        _written(
            self.home / self.settings,
            json.dumps(self.configured(f"{server.url}/v1"), indent=3) + "\n\n",
        )

    def quiet(self, url: str) -> Mapping[str, str]:
        """The variables that keep it on loopback."""
        return {}

    def configured(self, url: str) -> Mapping[str, object]:
        """The user's own settings."""
        return {}

    @abstractmethod
    def words(self, prompt: str) -> list[str]:
        """The command line."""

    @abstractmethod
    def write_step(self, path: Path, text: str) -> Reply:
        """A step: it writes a file."""

    @abstractmethod
    def shell_step(self, command: str) -> Reply:
        """A step: it runs a command."""

    def run(self, prompt: str) -> Run:
        """Run it to its end."""
        words = self.words(prompt)
        if self.is_script:
            self.program, words = Path(node()), [str(self.program), *words]
        return self._start(words, None).wait(LONGEST_RUN)


class OpenCode(Other):
    """OpenCode; without a registry it cannot fetch its own plugin package, which nothing here needs."""

    host, package, is_script = "opencode", OPENCODE, False
    settings = ".config/opencode/opencode.json"

    def quiet(self, url: str) -> Mapping[str, str]:
        flags = (
            "DISABLE_MODELS_FETCH",
            "DISABLE_AUTOUPDATE",
            "DISABLE_LSP_DOWNLOAD",
            "DISABLE_DEFAULT_PLUGINS",
        )
        return {**{f"OPENCODE_{flag}": "1" for flag in flags}, "NPM_CONFIG_OFFLINE": "true"}

    def configured(self, url: str) -> Mapping[str, object]:
        model = {"name": "scripted", "limit": {"context": 100_000, "output": 8_192}}
        options = {"baseURL": url, "apiKey": "made-up"}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": options,
            "models": {"scripted": model},
        }
        return {
            "model": "mine/scripted",
            "autoupdate": False,
            "share": "disabled",
            "provider": {"mine": provider},
        }

    def words(self, prompt: str) -> list[str]:
        return ["run", "--format", "json", prompt]

    def write_step(self, path: Path, text: str) -> Reply:
        return use("write", filePath=str(path), content=text)

    def shell_step(self, command: str) -> Reply:
        return use("bash", command=command, description="a command")


class Qwen(Other):
    """Qwen Code."""

    host, package, settings = "qwen", QWEN, ".qwen/settings.json"

    def quiet(self, url: str) -> Mapping[str, str]:
        return {"OPENAI_API_KEY": "made-up", "OPENAI_BASE_URL": url, "OPENAI_MODEL": "scripted"}

    def configured(self, url: str) -> Mapping[str, object]:
        auth = {"auth": {"selectedType": "openai"}}
        return {"$version": 4, "security": auth, "privacy": {"usageStatisticsEnabled": False}}

    def words(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--yolo", "-o", "stream-json"]

    def write_step(self, path: Path, text: str) -> Reply:
        return use("write_file", file_path=str(path), content=text)

    def shell_step(self, command: str) -> Reply:
        return use(
            "run_shell_command", command=command, description="a command", is_background=False
        )


class Gemini(Other):
    """Gemini CLI."""

    host, package, api, settings = "gemini", GEMINI, GenerateServer, ".gemini/settings.json"

    def quiet(self, url: str) -> Mapping[str, str]:
        base = url.removesuffix("/v1")
        return {
            "GEMINI_API_KEY": "made-up",
            "GOOGLE_GEMINI_BASE_URL": base,
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }

    def configured(self, url: str) -> Mapping[str, object]:
        auth = {"auth": {"selectedType": "gemini-api-key"}}
        return {"security": auth, "privacy": {"usageStatisticsEnabled": False}}

    def words(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--yolo", "--skip-trust", "-o", "stream-json", "-m", "gemini-2.5-pro"]

    def write_step(self, path: Path, text: str) -> Reply:
        return use("write_file", file_path=str(path), content=text)

    def shell_step(self, command: str) -> Reply:
        return use("run_shell_command", command=command, description="a command")


class Copilot(Other):
    """Copilot CLI, without GitHub."""

    host, package, is_script, settings = "copilot", COPILOT, False, ".copilot/mcp-config.json"

    def quiet(self, url: str) -> Mapping[str, str]:
        provider = {
            "COPILOT_PROVIDER_BASE_URL": url,
            "COPILOT_PROVIDER_API_KEY": "made-up",
            "COPILOT_MODEL": "gpt-5",
        }
        cache = str(self.package.folder / "cache")  # it unpacks itself once
        return {
            **provider,
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_CACHE_HOME": cache,
        }

    def configured(self, url: str) -> Mapping[str, object]:
        return {"mcpServers": {}}

    def words(self, prompt: str) -> list[str]:
        return ["-p", prompt, "--allow-all-tools", "--allow-all-paths", "--output-format", "json"]

    def write_step(self, path: Path, text: str) -> Reply:
        return use("create", path=str(path), file_text=text)

    def shell_step(self, command: str) -> Reply:
        return use("bash", command=command, description="a command", mode="sync")


class Cline(Other):
    """Cline CLI; its background process is stopped after a run."""

    host, package, is_script = "cline", CLINE, False
    settings = ".cline/data/settings/cline_mcp_settings.json"

    def quiet(self, url: str) -> Mapping[str, str]:
        return {"CLINE_NO_AUTO_UPDATE": "1", "CLINE_TELEMETRY_DISABLED": "1"}

    def configured(self, url: str) -> Mapping[str, object]:
        return {"mcpServers": {}}

    def words(self, prompt: str) -> list[str]:
        return ["--json", prompt]

    def run(self, prompt: str) -> Run:
        model = (
            "-p",
            "openai-compatible",
            "-k",
            "made-up",
            "-m",
            "scripted",
            "-b",
            f"{self.server.url}/v1",
        )
        assert self.call("auth", *model).returncode == 0
        run = super().run(prompt)
        self.call("hub", "stop")
        return run

    def write_step(self, path: Path, text: str) -> Reply:
        return use("editor", path=str(path), new_text=text)

    def shell_step(self, command: str) -> Reply:
        return use("run_commands", commands=[command])


OTHERS: tuple[type[Other], ...] = (OpenCode, Gemini, Qwen, Copilot, Cline)
