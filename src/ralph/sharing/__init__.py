"""Import, export and the team."""
