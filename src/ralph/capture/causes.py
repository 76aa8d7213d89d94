"""Whether somebody tells why: a cause and what follows from it, beyond the line that was just mended.

Whoever mends a red test or a complaint of a linter says what was done, and that is all there is to it. Where there
is more to learn, somebody says how things are: that one thing follows from another ("so", "because", "otherwise", in
ten languages), or that it is not as one would think ("is not", "only", "already"). The first is a cause, the second
a surprise. A cause that is somebody's slip ("the file was not copied over") is an accident and no cause, and what
begins with "so" sums up. `tests/capture/test_causes.py` holds the sentences on both sides.
"""

import re

from ralph.capture.chatter import is_accident, is_of_loop, is_own, is_passing, is_plan, is_report, is_test_first
from ralph.capture.statements import particular, sentences

_CAUSE = re.compile(
    r"""(?ix)
    (?<=\S\ )(?:so(?!\ (?:far|much|many|on|that)\b)|because|since(?!\ (?:\d|version|v\d|last|yesterday))|hence
    |therefore|thus|otherwise
    |or\ else|else(?!\ if)|unless|lest)\b|,\ (?:as|which)\b|^\W*(?:because|since|as|unless|otherwise|without)\b
    |\b(?:due\ to|caused\ by|comes?\ (?:from|with)|came\ (?:from|with)|leads?\ to|results?\ in|that\ is\ why
    |that['’]s\ why
    |which\ is\ why|the\ (?:reason|cause)|root\ cause|turns?\ out|turned\ out|must|mustn['’]t|never|always|banned
    |forbidden|not\ allowed|has\ to\ be|have\ to\ be|from\ now\ on|on\ purpose|nobody\ (?:may|should))\b
    |\b(?:weil|denn|sonst|andernfalls|deshalb|daher|darum|sodass|so\ dass|muss|müssen|darf|dürfen|nie|niemals)\b
    |\b(?:car|parce\ que|puisque|donc|sinon|c['’]est\ pourquoi|du\ coup|doit|doivent|jamais|à\ cause\ d)\b
    |\b(?:porque|ya\ que|puesto\ que|así\ que|por\ eso|si\ no|debe|deben|nunca|hay\ que)\b
    |\b(?:perché|poiché|quindi|altrimenti|deve|devono|pois|portanto|senão|omdat|want|anders|dus)\b
    |때문|라서|아서|어서|므로|않으면|없으면|해야|반드시|니까|因为|所以|否则|不然|导致|由于|必须|因此|以免
    |ため|ので|から|必ず|しないと"""
)
"""One thing follows from another, or a rule does."""
_SURPRISE = re.compile(
    r"""(?ix)
    \b\w+n['’]t\b|\b(?:cannot|not|neither|nor|nothing|none|no\ longer|only|already|both|itself|themselves|by\ default
    |even
    |although|whereas|but|still|without|twice|once\ more|silently)\b
    |\b(?:nicht|kein\w*|nur|schon|bereits|obwohl|aber|ohne|ne\ \w+\ pas|n['’]\w+\ pas|pas|seulement|déjà|mais|sans
    |solo|sólo|ya
    |pero|sin|aunque|non|già|senza|não|já|mas)\b
    |않|없|안\ |만\ |이미|하지만|지만|不|没|只|已经|但|却|ない|だけ|すでに|しかし"""
)
"""It is not as one would think."""
_SUMS_UP = re.compile(r"(?i)^\W*(?:so|thus|hence|therefore|also|alors|donc|pues|dus)\b[\s,]*")
_ENOUGH = 1.3
"""How particular an explanation must be: one name and a rare word, or four rare words."""
_BEYOND = 2.0
"""How particular a cause must be that reaches beyond a line: a name and three rare words, or two names."""
_LEAST = 6
"""Words of an explanation; signs of languages that have no blanks count by their length."""


def explanation(text: str) -> str:
    """What a text says about why, without its reports and plans; "" when it does not tell."""
    told = [each for each in sentences(text) if not _is_aside(each)]
    whole = " ".join(told)
    if not whole or not _is_long(whole) or particular(whole) < _ENOUGH:
        return ""
    return whole if any(_tells(each) for each in told) else ""


def is_cause(text: str) -> bool:
    """Whether a text has a cause with its consequence, or a rule; a mere surprise is not enough."""
    told = explanation(text)
    return particular(told) >= _BEYOND and any(_CAUSE.search(_bare(each)) is not None for each in sentences(told))


def _tells(sentence: str) -> bool:
    bare = _bare(sentence)
    return _CAUSE.search(bare) is not None or _SURPRISE.search(bare) is not None


def _is_aside(sentence: str) -> bool:
    """Whether a sentence is about the work, or about trouble that passes, and not about how things are."""
    if is_plan(sentence) or is_test_first(sentence) or is_of_loop(sentence) or is_accident(sentence):
        return True
    if is_passing(sentence) or is_own(sentence):
        return True
    return is_report(sentence) and _CAUSE.search(_bare(sentence)) is None


def _bare(sentence: str) -> str:
    """The sentence without quoted code, and without the word by which it only sums up what was said."""
    return re.sub(r"`[^`\n]*`", "x", _SUMS_UP.sub("", sentence))


def _is_long(text: str) -> bool:
    return len(text.split()) >= _LEAST or (len(text) >= 2 * _LEAST and not text.isascii())
