"""The context of a tool call: the project, its settings, and the agent that calls."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ralph.core import paths
from ralph.core.config import load
from ralph.core.settings import Config
from ralph.memory import caller
from ralph.memory.author import AGENT, WriteContext
from ralph.storage.library import Stored
from ralph.storage.pattern_limit import PatternLimit

_printed_warnings: set[str] = set()
"""Warnings about the config, which a server would otherwise print again for every call."""


@dataclass(frozen=True)
class ToolCall:
    """The context of a tool call.

    `root` is the project, `client` is the name of the calling client, and `agreed` is the text that
    a person agreed to delete.
    """

    root: Path
    env: Mapping[str, str]
    client: str = ""
    agreed: str | None = None

    @cached_property
    def config(self) -> Config:
        """The effective settings. Each warning is printed to stderr once."""
        loaded = load(self.root, env=self.env, limit=PatternLimit)
        for warning in loaded.warnings:
            if warning not in _printed_warnings:
                _printed_warnings.add(warning)
                sys.stderr.write(f"warning: {warning}\n")
        return loaded.config

    @property
    def task(self) -> str:
        """The task that the agent is working on, which limits what it can see."""
        return paths.current_task(self.root, self.env)

    @property
    def write_context(self) -> WriteContext:
        """The context for writes: the agent as author, and the user's patterns for secrets."""
        name = caller.clean_name(self.client)
        via = f"mcp ({name})" if name else "mcp"
        return WriteContext(replace(AGENT, via=via), patterns=self.config.privacy.patterns)

    def source(self, stored: Stored) -> str:
        """Return the location of a stored record as `file:line`, relative to the project."""
        return f"{paths.shown(stored.path, self.root)}:{stored.line}"
