"""Files are the truth; SQLite will be the index over them."""
