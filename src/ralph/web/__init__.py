"""The Memory Explorer, a local web application for browsing and correcting the memory."""
