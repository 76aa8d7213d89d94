"""The connected clients, their hooks, and the settings in effect, as the JSON that a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ralph.core import config
from ralph.core.config import BY_NAME, Layer, Loaded
from ralph.core.settings import Config
from ralph.install import connections
from ralph.privacy import privacy
from ralph.search import index
from ralph.storage import sessions

Json = dict[str, Any]


def connections_page(root: Path, env: Mapping[str, str]) -> Json:
    """Return the clients, the next step, and every setting with its source.

    `warnings` are problems with the config files. Raises ConfigError for a file that cannot be
    used.
    """
    loaded = config.load(root, env=env)
    return {
        **asdict(connections.list_connections(root, env)),
        **setup(root, env, loaded.config),
        "settings": _settings(loaded),
        "warnings": loaded.warnings,
    }


def setup(root: Path, env: Mapping[str, str], settings: Config) -> Json:
    """Return the step that is missing before sessions are recorded here, or None, as `next`."""
    has_sessions = bool(index.ask(root, sessions.recorded_hosts))
    step = connections.next_step(root, env, settings, has_sessions=has_sessions)
    return {"next": None if step is None else asdict(step)}


def _settings(loaded: Loaded) -> list[Json]:
    """Return the settings in effect. Secrets in their values are masked."""
    rows = []
    for name, value in loaded.json_values.items():
        place = loaded.origins[name]
        rows.append(
            {
                "name": name,
                "value": privacy.redact_value(value),
                "doc": BY_NAME[name].doc,
                "from": str(place),
                "default": place.layer is Layer.DEFAULT,
            }
        )
    return rows
