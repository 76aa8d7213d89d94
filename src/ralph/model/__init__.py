"""Names and values: no input or output, the standard library only."""
