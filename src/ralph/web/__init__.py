"""The Memory Explorer, a local web application that shows what is remembered in a browser."""
