"""The Memory Explorer: what is remembered, in a browser, over HTTP on this machine alone."""
