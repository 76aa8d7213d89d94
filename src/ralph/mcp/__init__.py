"""The MCP server, which offers Ralph's verbs as tools to any client that speaks the protocol."""
