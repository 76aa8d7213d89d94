"""Recognise prompts that say nothing about the work, such as greetings and thanks.

hi there :)              small talk
thanks, looks good!      small talk
hi, the build is red     not small talk, because it goes on
"""

from __future__ import annotations

import re

_SMALL_TALK = """
    and are bye continue cool day done everyone fine go going good great guys hello hey hi how
    later looks lunch morning evening night nice no nope now ok okay on perfect please pls proceed
    resume right see sounds super sure thank thanks that the there thx to today tomorrow ty very
    weekend well works yay yeah yep yes you your
    monday tuesday wednesday thursday friday
    bis bitte danke gut gute guten hallo ja moin morgen nacht passt perfekt schön schönen servus
    tag tschüss vielen weiter
    bien bon bonjour bonne bonsoir ciao journée merci oui salut soirée
    buenas buenos días gracias hola muchas noches tardes
    감사합니다 고마워 네 안녕 안녕하세요 응 おはよう こんにちは ありがとう はい 你好 谢谢 好的
"""
_SMALL_TALK_WORDS = frozenset(_SMALL_TALK.split())
_MAX_WORDS = 6  # a longer prompt says something
_WORD = re.compile(r"[^\W_]+")


def is_small_talk(text: str) -> bool:
    """Return whether a prompt is only a greeting, thanks, assent, or empty."""
    words = _WORD.findall(text.lower())
    return len(words) <= _MAX_WORDS and _SMALL_TALK_WORDS.issuperset(words)
