"""The command line: parse, one app call, print."""
