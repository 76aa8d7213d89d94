"""The command line: a command parses its arguments, calls one function and prints the result."""
