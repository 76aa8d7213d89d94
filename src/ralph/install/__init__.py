"""Clients, their hooks, the project's setup and its health."""
