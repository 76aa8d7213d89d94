"""The command line. Each command parses its arguments, calls one function and prints the result."""
