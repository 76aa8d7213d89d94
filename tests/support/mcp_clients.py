"""Claude Code as a client of MCP servers."""

from tests.e2e.scripted import Request

PATIENT = {"MCP_CONNECTION_NONBLOCKING": "false", "MCP_CONNECT_TIMEOUT_MS": "60000"}


def tools_of(request: Request) -> set[str]:
    """The names of the tools that a request offers."""
    return {str(tool.get("name")) for tool in request.body.get("tools") or []}
