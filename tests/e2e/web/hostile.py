"""Words that would run if a page took them for anything but text, in every place where words can stand.

Each would set `window.hacked` or open a dialog. `plant` writes them through the same doors as everything else: titles
and texts of memories and knowledge, tags, a task, what people and agents said in a session, names of files. `broken`
asks an open page whether one of them became more than text.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Page
from tests.support import sample
from tests.support.sample import Clock, Maker, Sample

from ralph.core.record import MemoryKind
from ralph.memory import knowledge, memory
from ralph.memory.author import BY_PERSON
from ralph.tasks import task as progress

SCRIPT = "<script>window.hacked = 'script'</script>"
IMAGE = "<img src=x onerror=\"window.hacked = 'image'\">"
DRAWING = "<svg/onload=\"window.hacked='svg'\"><details open ontoggle=\"window.hacked='toggle'\">"
TITLE = f"A title {IMAGE} {SCRIPT}"
TAG = "<img/src=x/onerror=window.hacked=1>"
FILE = "src/<img src=x onerror=window.hacked=2>.ts"

MARKDOWN = f"""Lead {SCRIPT} {IMAGE}

# Heading {SCRIPT}

[plain](javascript:window.hacked=3) [mixed](JaVaScRiPt:window.hacked=4) [entity](&#106;avascript:window.hacked=5)
[tab](java&#9;script:window.hacked=6) [space]( javascript:window.hacked=7) [vb](vbscript:hacked) [file](file:///etc/passwd)
[data](data:text/html,<script>window.hacked=8</script>) [svg](data:image/svg+xml;base64,PHN2Zy8+)
<javascript:window.hacked=9> <data:text/html,hacked> [ref][bad] ![picture](javascript:window.hacked=10)
![tracker](https://tracker.example/pixel.png) ![quote](x" onerror="window.hacked=11)
[nested [inner](javascript:window.hacked=12)](https://example.com/ok "t\\" onclick=\\"window.hacked=13")
[fine](https://example.com/fine)

{DRAWING}

| cell {IMAGE} | [x](javascript:window.hacked=14) |
|---|---|
| </td></table>{SCRIPT} | `</code>{SCRIPT}` |

```html
</code></pre>{SCRIPT}
```

<style>body {{ display: none }}</style><base href="https://tracker.example/"><iframe srcdoc="{SCRIPT}"></iframe>
<form action="https://tracker.example/"><input autofocus onfocus="window.hacked=15"></form>
<meta http-equiv="refresh" content="0;url=https://tracker.example/"> --><!-- <![CDATA[ {SCRIPT} ]]>

[bad]: javascript:window.hacked=16
"""


@dataclass(frozen=True)
class Planted:
    """The project, and where the hostile words are."""

    shop: Sample
    memory: str
    guardrail: str
    page: str
    task: str
    session: str


def plant(root: Path) -> Planted:
    """A sample project with hostile words in every place, in a folder that is not there yet."""
    shop = sample.copied(root)
    with sample.isolated(shop.env):
        kept = memory.add(
            root, f"{TITLE}\n\n{MARKDOWN}", MemoryKind.CONTEXT, (TAG, "hostile"), context=BY_PERSON
        )
        sign = memory.add(root, f"{TITLE}. {MARKDOWN}", MemoryKind.FIX, (TAG,), in_="guardrails")
        page = knowledge.add(root, TITLE, MARKDOWN, (TAG, "hostile"))
        sample.state_edge(
            root,
            kept.stored.record.id,
            f"affects=file:{FILE.replace(' ', '%20').replace('>', '%3E')}",
        )
        task = progress.add(root, TITLE, MARKDOWN).task.id
        maker = Maker(shop, Clock(datetime.now(UTC)))
        maker.session(SESSION, 0.2, 9, _story())
    return Planted(
        shop, kept.stored.record.id, sign.stored.record.id, page.stored.record.id, task, SESSION
    )


SESSION = "5e551011-0000-4000-8000-0000000000bb"


def _story() -> Any:
    ran = {"tool_name": "Bash", "tool_input": {"command": f"echo {SCRIPT}", "description": IMAGE}}
    return (
        ("UserPromptSubmit", {"prompt": f"Hostile prompt: {TITLE}\n\n{MARKDOWN}"}),
        (
            "PostToolUse",
            {**ran, "tool_response": {"stdout": MARKDOWN, "stderr": IMAGE, "interrupted": False}},
        ),
        ("PostToolUseFailure", {**ran, "error": f"Exit code 1\n{SCRIPT}{IMAGE}"}),
        (
            "Stop",
            {
                "stop_hook_active": False,
                "last_assistant_message": f"Hostile answer: {TITLE}\n\n{MARKDOWN}",
            },
        ),
    )


_BROKEN = """() => {
  const said = [];
  if (window.hacked !== undefined) said.push(`something ran: ${window.hacked}`);
  for (const one of document.querySelectorAll("*")) {
    const name = one.localName;
    if (["iframe", "object", "embed", "base", "meta"].includes(name) && one.closest("body")) said.push(`a ${name}`);
    if (name === "script" && !new URL(one.src, location.href).pathname.startsWith("/static/")) said.push("a script");
    if (name === "style") said.push("a style");
    for (const { name: key, value } of one.attributes) {
      if (key.startsWith("on") || key === "srcdoc") said.push(`${name} has ${key}`);
      const leads = ["href", "src", "action", "xlink:href"].includes(key);
      if (leads && !/^(https?:|mailto:|[/#]|[\\w.-]+([/?#]|$))/i.test(value)) said.push(`${name} leads to ${value}`);
      if (key === "src" && /^(https?:)?\\/\\//i.test(value)) said.push(`${name} loads ${value}`);
    }
  }
  return said;
}"""


def broken(page: Page) -> list[str]:
    """What of the hostile words became more than text; nothing, as it should be."""
    said = page.evaluate(_BROKEN)
    assert isinstance(said, list)
    return [str(each) for each in said]
