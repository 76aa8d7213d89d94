"""Whether a text gives orders to the agent that reads it: tests for words and for the shapes of such sentences.

A tool's output or an imported file may hold "ignore your instructions", a forged system message or an encoded
command. Such a text is not injected (`render.withheld`). The tests look for the tags and roles of a conversation, for
known turns of phrase, for what is encoded and run at once, for sentences that gather many suspicious words, and for
sentences that are built like an order (`order_shapes`, in seven languages).
They catch what is clumsy: every known text, a third to a half of those seen for the first time, and hardly a
harmless one (`tests/context/orders.py`). Nobody's safety may rest on them; the frame around what is injected is the
protection.

Hooks load this module: it imports nothing but the shapes and uses no patterns.
"""

from ralph.context.order_shapes import (
    GREETINGS,
    MODELS,
    NAMED,
    PUNCTUATION,
    READERS,
    SECRET_FILES,
    TELLING,
    calls_a_machine,
    has_a_shape,
)

TYPE_CHECKING = False  # the name that type checkers know
if TYPE_CHECKING:
    from collections.abc import Sequence

_OVERRIDE = frozenset(
    "ignore disregard forget override bypass dismiss abandon aside discard supersede supersedes disable".split()
)
_ORDERS = frozenset("instructions instruction directives guidance prompt prompts above".split())
_RULES = frozenset("rules rule guidelines guideline commands orders safeguards restrictions training".split())
_PROTECTED = frozenset("safety security user agent human".split())
_PROTECTION = frozenset(
    "protocol protocols checks constraints confirmation requirements approval rules filters".split()
)
_VOID = frozenset("void invalid cancelled canceled revoked obsolete lifted suspended".split())
_DUTIES = frozenset("must should shall needs".split())
_SILENT = frozenset("not dont never without don".split())
_TELLING = frozenset("tell telling mention mentioning inform informing report reporting notify notifying".split())
_EARLIER = frozenset("previous prior above earlier preceding former your".split())
_EVERY = _EARLIER | frozenset("all any every these those everything whatever".split())
_REACH = 7  # words from the verb to what it is about

_ROLES = (
    "system:", "[system]", "system message:", "developer:", "assistant:", "human:", "user:",
    "시스템:", "시스템 메시지:",
)  # fmt: skip
_ADDRESSED = frozenset(
    "you your i ignore override execute run delete must never always disregard obey comply send 너는 당신은".split()
)
_ADDRESSED_ENDS = ("하라", "해라", "하세요", "하십시오")
_TAGS = (
    "<system", "</system", "&lt;system", "&lt;/system", "<|im_", "&lt;|im_", "[inst]", "[/inst]", "<instructions>",
    "</instructions>", "<function_", "&lt;function_", "&lt;tool_result", "<assistant>", "<human>",
)  # fmt: skip
_PHRASES = (
    "you must now", "you must immediately", "you will now", "you now have to", "you are now a ", "you are now an ",
    "you are now in developer mode", "you are no longer", "from now on you", "your new instructions", "your new task",
    "your instructions have", "do not tell the user", "dont tell the user", "don t tell the user",
    "without telling the user", "without informing the user", "without the user knowing", "nothing to the user",
    "hide this from the user", "secret from the user", "reveal your", "print your system prompt", "your system prompt",
    "hidden system prompt", "pretend that you", "pretend you are", "unrestricted model",
    "without restrictions", "do anything now", "as an ai language model", "if you are an ai", "if you are an llm",
    "if you are a language model", "note to the ai", "note to ai", "note to the assistant", "attention ai",
    "attention llm", "ai agents must", "ai agents should", "ai assistants must", "ai assistants should",
    "agents reading this", "user has already approved", "has authorized you", "you are authorized to",
    "you are required to execute", "without user confirmation", "without user approval", "without asking the user",
    "you no longer need", "system update priority", "system override", "admin notice",
    "no longer apply to you", "obey only", "obey the next", "new system message", "end of tool output",
    "end of document", "do what it says", "do what this says", "what this document says", "what this file says",
    "safety filters are", "safety checks are", "open a reverse shell", "add a backdoor", "you have been upgraded",
    "you have been reset", "skip the security review", "approve this pull request without",
    "only valid task", "said before this", "everything above this line", "also include the contents of",
    "지금부터 너는", "지금부터 당신은", "이제부터 너는", "이제부터 당신은", "너는 이제", "당신은 이제",
    "사용자에게 알리지", "너는 지금부터", "당신은 지금부터",
    "사용자에게 말하지 말", "사용자에게 말하지 마", "사용자에게 보고하지", "이 문서를 읽는 모델",
    "이 글을 읽는 ai", "사용자 몰래", "프롬프트를 출력", "사용자의 허락 없이", "제한 없는 모델",
    "새로운 지시를 따르",
)  # fmt: skip
_CALLS = (
    " claude ", " ai ", " llm ", " assistant ", " assistants ", " coding agent ", " agents ", " you must ",
    " you should ", " you have to ", " please ", " kindly ", " ai 에이전트", " ai 어시스턴트", " 인공지능", " 반드시 ",
)  # fmt: skip
_HARM = (
    "rm -rf ~", "rm -rf /", "~/.ssh", "id_rsa", "authorized_keys", "~/.aws", "~/.netrc", "exfiltrate", "| sh", "|sh",
    "| bash", "|bash", "delete the .git", "post it to", "to http", "http://evil", "전송해", "내려받아 실행", "실행하라",
)  # fmt: skip
_SENDING = frozenset("send sends upload email forward copy publish exfiltrate".split())
_DECODED = ("base64 -d", "base64 --decode", "b64decode", "atob(", "frombase64string")
_EXECUTED = ("| sh", "|sh", "| bash", "|bash", "| zsh", "exec(", "eval(", "iex", "invoke-expression", "sh -c")
_KOREAN_ORDERS = ("지시", "명령", "규칙", "지침", "프롬프트")
_KOREAN_EARLIER = ("이전", "앞선", "앞의", "위의", "기존", "지금까지", "모든", "너의", "당신의", "네 ")
_KOREAN_AWAY = ("무시", "잊어", "잊고", "따르지 마", "따르지 말", "취소되", "버리고", "해제되")
_SIGNS = tuple(
    frozenset(words.split())
    for words in (
        "you your yourself 너는 너의 넌 당신은 당신의 당신이",
        "ai llm llms claude chatgpt gemini assistant assistants agent agents model models bot bots "
        "에이전트 에이전트는 클로드",
        "instruction instructions directive directives guideline guidelines rules prompt restrictions limits safety "
        "permission consent confirmation 지시 지시를 지시만 지시사항을 규칙은 규칙을 지침을",
        "ignore disregard forget override bypass void obey comply pretend 무시하고 무시해 잊고 따르고",
        "system administrator admin supervisor operator root developer owner maintainers sudo 관리자 시스템",
        "leak send forward upload email exfiltrate reveal secret secrets keys key token credentials password passwords "
        "ssh env npmrc http https wallet backdoor payload 전송하세요 보내라 비밀",
        "wipe delete rm chmod drop destroy erase malware hack hacked 지워라 삭제하라 덮어써",
        "now immediately must mandatory order required here 지금부터 이제부터 지금 즉시 최우선으로 명령한다",
        "above previous earlier before prior preceding everything 이전 위 위의 모두 모든",
    )
)
"""Groups of words: a sentence that has words of many groups is hardly about code."""
_ENOUGH = 4  # groups
_NEAR = 14  # characters around a Korean word
_JOINERS = {0x200C: None, 0x200D: None}


def gives_orders(text: str) -> bool:
    """Whether a text, cleaned, speaks to the agent that reads it instead of telling it something."""
    plain = text.translate(_JOINERS).lower()
    words = plain.translate(PUNCTUATION).split()
    line = f" {' '.join(words)} "
    return (
        any(tag in plain for tag in _TAGS)
        or any(phrase in line for phrase in _PHRASES)
        or _overrides(words)
        or _speaks_to_a_model(words)
        or _plays_a_role(plain)
        or (any(call in line for call in _CALLS) and any(harm in plain for harm in _HARM))
        or _runs_what_it_hides(plain)
        or (not NAMED.isdisjoint(words) and any(map(_calls, plain.splitlines())))
        or (_may_hold_an_order(plain, set(words)) and any(map(_is_an_order, _sentences(plain))))
        or (not line.isascii() and _overrides_in_korean(line))
    )


def _overrides(words: "Sequence[str]") -> bool:
    """Ignore the previous instructions, forget your rules, disregard everything above."""
    for at, word in enumerate(words):
        if word in _OVERRIDE:
            earlier = every = guarded = False
            for follower in words[at + 1 : at + 1 + _REACH]:
                if (follower in _ORDERS and every) or (follower in _RULES and earlier):
                    return True
                if follower in _PROTECTION and guarded:
                    return True
                guarded = guarded or follower in _PROTECTED
                every = every or follower in _EVERY
                earlier = earlier or follower in _EARLIER
        elif word in _ORDERS and _VOID.intersection(words[at + 1 : at + 5]) and _EVERY.intersection(words[:at][-3:]):
            return True
    return False


def _speaks_to_a_model(words: "Sequence[str]") -> bool:
    """Dear AI; Claude must end with; any assistant that reads this; never mention this to the user."""
    for at, word in enumerate(words):
        after = words[at + 1 : at + 5]
        if word in GREETINGS and READERS.intersection(after[:2]):
            return True
        if word in MODELS and _DUTIES.intersection(after) and "be" not in after:
            return True
        if word in READERS and after[:1] == ["that"] and words[at - 1] == "any":
            return True
        if word in _SILENT and _TELLING.intersection(after[:2]) and {"user", "this"}.intersection(after):
            return True
    return False


def _plays_a_role(text: str) -> bool:
    """A line such as `system: you are ...`, or a heading such as `New instructions:`."""
    for line in text.splitlines():
        bare = line.strip(" \t>#*-")
        if bare.startswith(("new instructions:", "updated instructions:")):
            return True
        role = next((role for role in _ROLES if bare.startswith(role)), "")
        rest = bare[len(role) :].rstrip(" .!")
        if role and (_ADDRESSED.intersection(rest.translate(PUNCTUATION).split()) or rest.endswith(_ADDRESSED_ENDS)):
            return True
    return False


def _sentences(text: str) -> list[str]:
    """The sentences of a text, roughly: a dot within a name or a path ends none."""
    for end in (". ", "! ", "? ", "; ", "。", "！", "？"):
        text = text.replace(end, "\n")
    return text.split("\n")


def _calls(line: str) -> bool:
    return calls_a_machine(line, line.translate(PUNCTUATION).split())


def _may_hold_an_order(text: str, words: "set[str]") -> bool:
    """A quick look at all words together, before sentence after sentence is looked at: hooks wait for it."""
    if not text.isascii() or not TELLING.isdisjoint(words) or not _SENDING.isdisjoint(words):
        return True
    return sum(not signs.isdisjoint(words) for signs in _SIGNS) >= _ENOUGH


def _is_an_order(sentence: str) -> bool:
    words = sentence.translate(PUNCTUATION).split()
    return bool(words) and (_gathers_signs(sentence, set(words)) or has_a_shape(sentence, words))


def _gathers_signs(sentence: str, words: "set[str]") -> bool:
    if words & _SENDING and "http" in sentence and any(name in sentence for name in SECRET_FILES):
        return True
    return len(words) >= _ENOUGH and sum(not signs.isdisjoint(words) for signs in _SIGNS) >= _ENOUGH


def _runs_what_it_hides(text: str) -> bool:
    """Something encoded that is to be run at once."""
    if "-encodedcommand" in text:
        return True
    return any(word in text for word in _DECODED) and any(word in text for word in _EXECUTED)


def _overrides_in_korean(text: str) -> bool:
    """The same as `_overrides`, where the verb comes last and words carry their particles."""
    for order in _KOREAN_ORDERS:
        at = text.find(order)
        while at >= 0:
            before, after = text[max(0, at - _NEAR) : at], text[at : at + len(order) + _NEAR]
            if any(word in before for word in _KOREAN_EARLIER) and any(word in after for word in _KOREAN_AWAY):
                return True
            at = text.find(order, at + 1)
    return False
