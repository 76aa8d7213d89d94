"""Text to records and back: pure functions, one file a format."""
