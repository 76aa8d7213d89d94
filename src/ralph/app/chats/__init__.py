"""Conversations with an agent about a task: one turn at a time, kept with their messages, gone on with later."""
