"""Files are the truth; SQLite is the index over them."""
