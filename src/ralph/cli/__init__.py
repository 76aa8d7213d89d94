"""The command line. A command parses its words, calls one function of `ralph.app` and prints."""
