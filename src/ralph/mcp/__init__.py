"""The MCP server: Ralph's verbs as tools for any client that speaks the protocol."""
