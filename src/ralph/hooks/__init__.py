"""Handle coding agents' hook events, about as fast as a bare interpreter starts.

A hook never gets in the way: whatever fails is counted, and the agent's session goes on.
"""
