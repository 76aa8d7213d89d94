"""Programs that stand in for a client in a chat."""

CLAUDE = """\
#!{python}
import json, os, sys, time
words = sys.argv[1:]
with open({record!r}, "a", encoding="utf-8") as out:
    print(json.dumps({{"words": words, "task": os.environ.get("RALPH_TASK"), "cwd": os.getcwd()}}), file=out)
name = words[words.index("--session-id" if "--session-id" in words else "--resume") + 1]
prompt = sys.stdin.read().splitlines()[-1]
if prompt == "wait":
    print(json.dumps({{"type": "system", "subtype": "init", "session_id": name}}), flush=True)
    open({record!r} + ".waits", "w").close()
    time.sleep(600)
if prompt == "fail":
    print("Not logged in", file=sys.stderr)
    sys.exit(1)
said = {{"type": "assistant", "message": {{"content": [{{"type": "text", "text": "You said: " + prompt}}]}}}}
print(json.dumps({{**said, "session_id": name}}))
print(json.dumps({{"type": "result", "subtype": "success", "session_id": name}}))
"""
