"""The demo's first part: a loop that works until a test passes, and a second one that knows what the first learned."""

import json
import shutil

from examples.stage import Demo

CART = "def total(prices):\n    return sum(prices) - 1\n"
WRONG = "def total(prices):\n    return round(sum(prices))\n"
RIGHT = "def total(prices):\n    return round(sum(prices), 2)\n"
WITH_VAT = RIGHT + "\n\ndef with_vat(prices, rate):\n    return round(total(prices) * (1 + rate), 2)\n"
TEST = """import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([1.10, 2.20]), 3.30)
"""
VAT = """import unittest

from cart import with_vat


class Vat(unittest.TestCase):
    def test_vat(self):
        self.assertEqual(with_vat([10.0], 0.19), 11.90)
"""
LEARNED = (
    '<knowledge tags="cart,prices,rounding" title="Prices are floats and must be rounded">\n'
    "Prices in cart.py are floats: 1.10 + 2.20 is 3.3000000000000003. Round every sum to two digits.\n</knowledge>"
)
FIRST = [
    {"say": "I read cart.py and its test.\n<journal>total() takes 1 away; the test wants 3.30.</journal>"},
    {
        "say": "Fixed.\n<journal>Removed the -1 and rounded.</journal>\n<task-done>{task}</task-done>",
        "write": {"cart.py": WRONG},
    },
    {
        "say": f"Rounded to two digits.\n{LEARNED}\n<journal>round() without digits gave 3.</journal>\n"
        "<task-done>{task}</task-done>",
        "write": {"cart.py": RIGHT},
    },
    {"say": "The test asks for what the task says, and nothing was weakened.\n<verify-pass/>", "read_only": True},
]
SECOND = [
    {
        "say": "Prices must be rounded, as I was told.\n<journal>with_vat() rounds like total().</journal>\n"
        "<task-done>{task}</task-done>",
        "when": "Prices in cart.py are floats",
        "write": {"cart.py": WITH_VAT},
    },
    {"say": "<verify-pass/>", "read_only": True},
]


def until_it_works(demo: Demo) -> None:
    """A failing test, three iterations, and what was learned."""
    demo.say("A project with a failing test, and an agent that works until it passes")
    shop = demo.home / "cart"
    (shop / "tests").mkdir(parents=True)
    demo.enter(shop)
    demo.put("cart.py", CART)
    demo.put("tests/test_cart.py", TEST)
    demo.put("agent.json", json.dumps(FIRST))
    if shutil.which("git"):
        demo.quietly("git", "init", "-q")
    demo.ralph("init")
    demo.ralph('loop start "make the cart\'s test pass" --agent scripted --command agent.json', merged=True)
    demo.ralph("journal list")
    demo.ralph("knowledge show know-prices-are-floats-and-must-be-rounded")


def once_more(demo: Demo) -> None:
    """Another goal: what the first run learned is in its first prompt."""
    demo.say("Another run, later: it starts with what the first one learned")
    demo.put("tests/test_vat.py", VAT)
    demo.put("agent.json", json.dumps(SECOND))
    demo.ralph('loop start "add with_vat() to the cart" --agent scripted --command agent.json', merged=True)
    prompt = demo.ralph("loop show --iteration 1", shown=False)
    known = prompt.partition("## Project Knowledge")[2].partition("\n## ")[0]
    demo.insist("Round every sum to two digits" in known, "the second run was not told what the first learned")
    demo.show("(from the prompt of its first iteration)\n")
    demo.show("".join(f"| {line}\n" for line in f"## Project Knowledge{known}".rstrip().splitlines()))
    demo.ralph("loop list")
    demo.ralph("status --usage")
    demo.enter(demo.home / "shop")
