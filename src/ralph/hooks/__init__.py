"""Handle the events of coding agents: fast as a bare interpreter, and never in the way."""
