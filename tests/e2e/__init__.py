"""Ralph on the real clients, against scripted model servers on loopback; run by `make e2e`."""
