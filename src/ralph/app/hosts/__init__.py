"""The agents' own settings: Ralph put into them and out again, and the MCP servers that they and a project name."""
