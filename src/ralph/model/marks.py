"""How text that Ralph hands to an agent is marked, so that it is never taken for something new.

An injected text is one or more blocks. A block begins with a line that starts with `INJECTED`, then a
fence of backticks longer than any in the content, the content, and the same fence again; lines that start
with `NOTE` may follow. Whoever captures looks for these marks; whoever renders writes them.
"""

NOTE = "[ralph] "
INJECTED = NOTE + "Reference from earlier work"
