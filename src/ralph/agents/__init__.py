"""Prompt in, Reply out: the programs that work on a prompt, and how programs are run at all."""
