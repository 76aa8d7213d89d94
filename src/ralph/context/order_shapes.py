"""Shapes of sentences that order an agent about, whatever words they use, in seven languages.

A machine is called by its name and told to do something; "you" shall, from now on; somebody is not to be told; a
download is to be run, something secret to be handed over; earlier instructions are to be forgotten. English has a
function for each shape, other languages a table: one word of each group must be in one sentence. The words were
chosen so that real documentation hardly has them together: of 60,000 sentences from READMEs and manuals some
two in ten thousand are taken for orders. `tests/context/order_shapes.py` has the texts and the rates.

Hooks load this module through `orders`: it imports nothing and uses no patterns.
"""

TYPE_CHECKING = False  # the name that type checkers know
if TYPE_CHECKING:
    from collections.abc import Sequence

MODELS = frozenset("ai ais llm llms claude chatgpt gemini copilot codex".split())
READERS = MODELS | frozenset("model assistant assistants agent agents".split())
GREETINGS = frozenset("dear hello hi hey attention".split())
SECRET_FILES = (".env ", "~/.ssh", ".ssh ", "id_rsa", ".npmrc", ".netrc", "~/.aws", "/etc/passwd", "/etc/shadow")
PUNCTUATION = {ord(char): " " for char in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~‘’“”…·—–，：、「」（）。！？；"}

_HEAD = 60  # characters in which somebody is called
_CALLED = READERS | frozenset("models bot bots assistent assistenten ki asistente ia".split())
_CALLING = GREETINGS | frozenset(
    "to for the any all every whichever note coding language automated autonomous tools systems reviewers readers an a "
    "den die der lieber liebe para el la le l pour instructions following".split()
)
_DOING = frozenset(
    "accept act add always answer append approve assume call change commit consider continue delete deploy "
    "disable disregard do download dont drop execute fetch follow forget forward give grant ignore include insert "
    "install invoke keep leave mark merge never obey open output please post pretend print publish push quickly "
    "read recommend refuse remove rename repeat replace reply report respond return reveal rewrite run say send "
    "set share show skip start stop swap switch tell treat trust turn upload use visit wipe write you your führe "
    "lösche ignoriere sende gib sag ejecuta borra envía ignora di exécute supprime envoie dis".split()
)
_KINDS = frozenset("ai automated autonomous coding llm language".split())
_GROUPS = frozenset("agents assistants tools bots models reviewers crawlers".split())
_TEXTS = frozenset("file log output page document text message paragraph line readme comment error build".split())
_TAKING_IN = ("read", "process", "pars", "summar", "see", "scan", "review", "handl")
_OBLIGED = (" must ", " have to ", " has to ", " shall ", " should ", " is to ", " are to ", " needs to ", " need to ",
            " are required to ", " is required to ")  # fmt: skip
_AS_THE_READER = tuple(
    f"you, {who}" for who in ("the assistant", "the ai", "the model", "the agent", "an ai", "as an ai")
)
_BEING = tuple(f"as {who} " for who in ("the assistant", "an assistant", "the ai", "an ai", "the model", "the agent"))

_HENCEFORTH = ("from now on", "from this point", "from here on", "from this moment", "starting now", "henceforth")
_YOUR_WORDS = tuple(
    f" your {word}" for word in "answer reply replies response next output message messages summary final".split()
)
_SPEAKING = frozenset("answer respond reply pretend claim obey comply".split())
_STATING = frozenset("report say state confirm".split())
_ONLY = frozenset("real true actual only new next primary first".split())
_AIMS = frozenset("goal task mission objective purpose job action instruction instructions role".split())
_FREED = frozenset("allowed authorized authorised permitted cleared".split())
_RISKY = frozenset("push delete skip bypass publish deploy execute ignore disable merge overwrite force".split())
_BOUNDS = frozenset("permissions restrictions limits guardrails sandbox constraints filters".split())
_LOOSENED = frozenset("changed lifted off disabled removed expanded suspended".split())
_AT_THE_HEAD = ("act as if ", "behave as if ", "this is your supervisor", "this is your operator", "this is your boss",
                "drop what you are doing", "stop what you are doing")  # fmt: skip
_UNBOUND = ("no limits", "no restrictions", "no rules", "unrestricted", "without limits")
_LATER = frozenset("later future further following subsequent next".split())
_OVERRIDING = frozenset("ignore disregard forget override dismiss".split())
_PERSONS = frozenset("user human developer operator owner person".split())

_BID = (" do not ", " dont ", " don t ", " never ", " must not ", " shall not ", " should not ", " are not to ",
        " no need to ", " refrain from ", " avoid ")  # fmt: skip
_DISCLOSING = frozenset("tell mention inform notify reveal say disclose admit let telling mentioning informing".split())
_AUDIENCE = _PERSONS | frozenset("anyone anybody reviewer maintainers".split())
_THAT = ("that you", "that this", "that the", "this was", "about this")
_HUSHED = ("say nothing about", "keep quiet about", "stay silent about", "make no mention", "keep this between us")
_BEFORE_A_BID = frozenset("do don dont never you please also and but there avoid refrain".split())

_DOWNLOAD = ("curl ", "wget ", "iwr ", "invoke-webrequest")
_PIPED = ("| sh", "|sh", "| bash", "|bash", "| zsh", "| sudo", "|sudo", "| python", "| iex", "|iex", "&& sh ",
          "&& bash ", "; sh ", "; bash ")  # fmt: skip
_RUNNING = frozenset(
    "run execute paste launch you your please ejecuta ejecute exécute exécutez lance führe starte".split()
)
_RUNNING_PARTS = ("실행하", "돌려", "执行", "运行", "実行")
_USING = frozenset("call use invoke".split())
_URGENT = (" now ", " right away ", " immediately ", " whatever ", " without ", "--force", "http", "delete", "rm ")
_SECRETS = (*SECRET_FILES, "id_ed25519", "`env`", "environment variables", "환경 변수", "环境变量", "環境変数", "密钥")
_HANDING = frozenset(
    "send post upload email forward copy publish exfiltrate paste include put envía envia manda sube envoie envoyez "
    "sende schicke".split()
)
_HANDING_PARTS = ("发送", "上传", "发到", "送信", "アップロード", "전송", "보내", "업로드")
_TO_THE_READER = (*_YOUR_WORDS, " before you answer", " back to me", " the next commit")

_FORGETTING = (
    ("ignoriere ignorier vergiss missachte umgehe verwirf",
     "anweisung regel vorgabe instruktion richtlinie", "alle bisherig vorherig früher deine obig"),
    ("ignore ignorez oublie oubliez contourne contournez",
     "instruction consigne règle directive", "précédent toutes tous tes vos antérieur dessus"),
    ("ignora ignore olvida olvide omite desobedece",
     "instruccion regla orden directri indicacion", "anterior todas todos tus sus previas"),
)  # fmt: skip
"""Of a language: the words that forget, how what they forget begins, and how what says which of them begins."""
_SENTENCES = (
    ("忽略|无视|忘记|忘掉|抛开|不要遵守", "指示|指令|命令|规则|提示", "之前|以前|上面|所有|先前|你的"),
    ("無視|忘れ|従わな", "指示|命令|ルール|規則|プロンプト", "以前|これまで|上記|すべて|全て|前の|あなた"),
    ("이전|기존|앞선", "지침|지시|규칙", "유효하지 않|무효", "따르"),
    (" ab jetzt | ab sofort | von nun an |künftig", " du | dich | dir ", "musst|sollst|wirst|darfst"),
    ("à partir de maintenant|désormais|dorénavant", " tu | vous ", "dois|devez|répond|diras|es "),
    (" a partir de ahora | desde ahora | de ahora en adelante ", " debes | responde| dirás| eres | tienes que"),
    ("从现在开始|从现在起|从今以后|今后", "你"),
    ("これからは|今後は|今から|これより", "あなた|お前"),
    ("앞으로|지금부터|이제부터", "너는|당신은|넌 |너의|당신의|어시스턴트는|ai는"),
    ("你现在是|你是一个|あなたは今から", "没有限制|不受限制|制限のない"),
    (" du bist jetzt | du bist nun | tu es maintenant | ahora eres ", " ohne | sans | sin "),
    ("あなたの新しい|你的新|당신의 새로운|너의 새로운", "任務|任务|指示|仕事|タスク|役割|임무|지시|역할"),
    (" sag | sage | verrat| erzähl| erwähn", " benutzer| nutzer| anwender| user ", " nicht| nie"),
    ("ne dis pas|ne dites pas|ne mentionne|ne révèle|n informe pas|sans le dire", "utilisateur|à personne"),
    (" no le digas| no digas| no menciones| no reveles| sin decir", " usuario| nadie"),
    ("不要|别|不得|请勿", "告诉|提及|透露|告知", "用户|任何人"),
    ("ユーザー|利用者", "伝えず|言わず|知らせず|内緒|秘密に|伝えない|言わない|知らせない|知られない"),
    ("사용자", "비밀로|알리지 마|알리지 말|말하지 마|말하지 말|몰래|숨기고"),
    ("보고하지 마|알리지 마", "삭제|지우|실행|배포|커밋"),
    ("助手，|助手,|助手：|助手:|助手必须|助手请|ai必须|ai请|ai，|ai：|智能体必须", "请|必须|务必|忽略|执行"),
    ("作为ai|作为助手|作为人工智能|作为一个ai", "你"),
    ("アシスタントは|アシスタント、|アシスタントへ|aiは|aiへ|ai、", "してください|しろ|せよ|すること|しなさい"),
    ("어시스턴트는|어시스턴트에게|인공지능은|인공지능에게|모델에게|에이전트에게|ai는|ai에게|클로드,|클로드야",
     "라|십시오|시오|세요|써"),
    ("ai 도구는|ai 어시스턴트는|ai 에이전트는|ai는", "해야"),
    (" an den ki| an die ki| an den assistenten| lieber assistent| liebe ki",),
    ("exécute|exécutez", "commande suivante|immédiatement", "sans |ne demande"),
)  # fmt: skip
"""Sentences in other languages: one of each group must be there; latin ones are looked for between blanks."""
_LATIN = tuple(
    part for groups in _SENTENCES for part in groups[0].split("|") if part.isascii() and part.startswith(" ")
)
NAMED = _CALLED | _GROUPS | {"whoever"}
"""One of these words is in every line that calls a machine."""
TELLING = frozenset(
    "you your act behave answer reply respond nothing quiet silent curl wget iwr invoke tool jetzt sofort nun sag sage "
    "verrate verraten ki assistenten lieber liebe ahora desde digas menciones reveles decir dis dites "
    "mentionne".split()
).union(NAMED, _OVERRIDING, _DISCLOSING, _HANDING, *(verbs.split() for verbs, _, _ in _FORGETTING))
"""One of these words is in every sentence of ASCII that has a shape: most of what tools print has none of them."""


def has_a_shape(sentence: str, words: "Sequence[str]") -> bool:
    """Whether a sentence, in small letters and as its words, is built like an order to whoever reads it."""
    if sentence.isascii() and TELLING.isdisjoint(words):
        return False
    line = f" {' '.join(words)} "
    return (
        calls_a_machine(sentence, words)
        or any(each in sentence for each in _AS_THE_READER)
        or _binds_the_reader(words, line)
        or _frees_the_reader(words, line)
        or _hushes(words, line)
        or _runs_or_sends(sentence, words, line)
        or _in_other_languages(sentence, words, line)
    )


def calls_a_machine(line: str, words: "Sequence[str]") -> bool:
    """Assistant, stop; for the AI: push; language models reading this output have to."""
    if NAMED.isdisjoint(words):
        return False
    bare = line.strip(" \t>#*-<[(")
    ends = [at for sign in (",", ":", "!", "：", "，") if 0 < (at := bare.find(sign)) <= _HEAD]
    head, rest = (bare[: min(ends)], bare[min(ends) + 1 :]) if ends else ("", "")
    called = head.translate(PUNCTUATION).split()
    doing = rest.translate(PUNCTUATION).split()
    if doing and not _CALLED.isdisjoint(called):
        addressed = all(word in _CALLED or word in _CALLING for word in called)
        formal = called[0] in ("to", "for", "note") and not _CALLED.isdisjoint(called[1:4])
        if (addressed or formal) and doing[0] in _DOING:
            return True
        if addressed and called[0] == "for" and called[-1] in MODELS and bare[len(head)] == ":":
            return True
    if f"{head} ".startswith(_BEING) and "you" in doing[:1]:
        return True
    return _duty_of_readers(words)


def _duty_of_readers(words: "Sequence[str]") -> bool:
    """Coding assistants reading this output have to; automated agents must; whoever parses this shall."""
    for at, word in enumerate(words):
        rest = f" {' '.join(words[at + 1 :])} "
        if word in _GROUPS and words[max(0, at - 1)] in _KINDS and at <= len(_KINDS) and rest.startswith(_OBLIGED):
            return " be " not in rest[:20]
        whoever = at == 0 and word == "whoever"
        after = words[at + 1 : at + 5]
        if not (whoever or (word in _CALLED and word not in ("agent", "agents", "model"))) or "this" not in after:
            continue
        this = after.index("this")
        taking = any(each.startswith(_TAKING_IN) for each in after[:this])
        told = whoever or not _TEXTS.isdisjoint(words[at + this + 2 : at + this + 4])
        if taking and told and (any(duty in rest for duty in _OBLIGED) or (whoever and after[this + 1 : this + 2])):
            return any(duty in rest for duty in _OBLIGED) or after[this + 1] in _DOING
    return False


def _binds_the_reader(words: "Sequence[str]", line: str) -> bool:
    """You shall from now on; you must always answer that; you are to report."""
    if any(each in line for each in _HENCEFORTH):
        if any(each in line for each in _YOUR_WORDS):
            return True
        return any(f" you{duty}" in line for duty in (*_OBLIGED, " will "))
    if not any(f" you{duty}" in line for duty in _OBLIGED):
        return False
    for at, word in enumerate(words):
        after = words[at + 1 : at + 6] if word == "you" else []
        if not _SPEAKING.isdisjoint(after[:4]) and "with" not in after:
            return True
        if not _STATING.isdisjoint(after) and ("that" in words[at:] or "as" in words[at:]):
            return True
    return False


def _frees_the_reader(words: "Sequence[str]", line: str) -> bool:
    """Your real goal is; you are allowed to push; your restrictions are lifted; ignore what the user asked."""
    if line[1:].startswith(_AT_THE_HEAD) or (" you are now " in line and any(each in line for each in _UNBOUND)):
        return True
    for at, word in enumerate(words):
        after = words[at + 1 : at + 7]
        if word == "your" and after[2:3] == ["is"] and after[0] in _ONLY and after[1] in _AIMS:
            return True
        if word == "your" and after[:1] and after[0] in _BOUNDS and not _LOOSENED.isdisjoint(words):
            return True
        if word == "you" and after[:1] == ["are"] and not _FREED.isdisjoint(after[1:2]):
            return not _RISKY.isdisjoint(after)
        if (
            word in _OVERRIDING
            and after[:1]
            and after[0] in ("whatever", "what")
            and not _PERSONS.isdisjoint(after[1:4])
        ):
            return True
    answers = words[:1] and words[0] in ("answer", "reply", "respond")
    return bool(answers) and not _LATER.isdisjoint(words[1:5])


def _hushes(words: "Sequence[str]", line: str) -> bool:
    """Do not tell anyone; never say that you have read this; say nothing about it in your report."""
    if any(each in line for each in _HUSHED):
        return any(each in line for each in (" you ", " your ", " user ", " this "))
    if not words or words[0] not in _BEFORE_A_BID:
        return False
    for bid in _BID:
        at = line.find(bid)
        after = line[at + len(bid) :].split()[:9] if at >= 0 else []
        told = next((place for place, word in enumerate(after[:3]) if word in _DISCLOSING), -1)
        if told < 0:
            continue
        rest = after[told + 1 :]
        if not _AUDIENCE.isdisjoint(rest[:6] if bid == " no need to " else rest[:3]):
            return after[told] != "let" or "know" in rest
        if any(each in " ".join(rest) for each in _THAT) and bid != " do not ":
            return True
    return False


def _runs_or_sends(sentence: str, words: "Sequence[str]", line: str) -> bool:
    """Run a download; use a tool at once; hand over what is secret."""
    fetched = any(each in sentence for each in _DOWNLOAD) and any(each in f"{sentence} " for each in _PIPED)
    if fetched and (not _RUNNING.isdisjoint(words) or any(each in sentence for each in _RUNNING_PARTS)):
        return True
    for at, word in enumerate(words):
        asked = at == 0 or "you" in words[max(0, at - 3) : at]
        if word in _USING and asked and "tool" in words[at + 1 : at + 6] and words[at + 1] != "a":
            return any(each in line or each in sentence for each in _URGENT)
    if not any(each in f"{sentence} " for each in _SECRETS):
        return False
    handed = not _HANDING.isdisjoint(words) or any(each in sentence for each in _HANDING_PARTS)
    return handed and ("http" in sentence or any(each in line for each in _TO_THE_READER))


def _in_other_languages(sentence: str, words: "Sequence[str]", line: str) -> bool:
    """The same in German, French, Spanish, Chinese, Japanese and Korean."""
    for verbs, orders, which in _FORGETTING:
        if not set(verbs.split()).isdisjoint(words) and _begun(words, orders) and _begun(words, which):
            return True
    if line.isascii() and not any(each in line for each in _LATIN):
        return False
    text = f"{line}{sentence}"
    return any(all(any(part in text for part in group.split("|")) for group in each) for each in _SENTENCES)


def _begun(words: "Sequence[str]", beginnings: str) -> bool:
    starts = tuple(beginnings.split())
    return any(word.startswith(starts) for word in words)
