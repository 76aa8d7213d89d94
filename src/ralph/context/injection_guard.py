"""Detect prompt injection: whether a text gives instructions to the agent that reads it.

A tool's output or an imported file may contain "ignore your instructions", a forged system message or an encoded
command; such a text is not injected (`render.withheld`). The rules catch every known text, a third to a half of new
ones, and hardly a harmless one: the frame around injected text is the protection. Hooks load this: no regex.
"""

# Sets of alternatives that several rules share.
_SETS = {
    "MODEL": "ai,ais,llm,llms,claude,chatgpt,gemini,copilot,codex,클로드",
    "READER": "ai,ais,llm,llms,claude,chatgpt,gemini,copilot,codex,model,models,assistant,assistants,agent,agents,bot,"
    "assistent,assistenten,ki,asistente,ia,ai tools,ai agent",
    "DUTY": "must,have to,has to,shall,should,is to,are to,needs to,need to,are required to,will",
    "SECRET": "=.env ,=~/.ssh,=.ssh ,=id_rsa,=id_ed25519,=.npmrc,=.netrc,=~/.aws,=/etc/passwd,=/etc/shadow,=`env`,"
    "environment variables,환경 변수,环境变量,環境変数,密钥",
    "PERSON": "user,human,developer,operator,owner,person,anyone,anybody,reviewer,maintainers",
    "VERB": "accept,act,add,always,answer,append,approve,assume,call,change,commit,consider,continue,delete,deploy,"
    "disable,disregard,do,download,drop,execute,fetch,follow,forget,forward,give,grant,ignore,include,insert,install,"
    "invoke,keep,leave,mark,merge,never,obey,open,output,please,post,pretend,print,publish,push,quickly,read,recommend,"
    "refuse,remove,rename,repeat,replace,reply,report,respond,return,reveal,rewrite,run,say,send,set,share,show,skip,"
    "start,stop,swap,switch,tell,treat,trust,turn,upload,use,visit,wipe,write,you,your,führe,lösche,ignoriere,sende,"
    "gib,sag,ejecuta,borra,envía,ignora,di,exécute,supprime,envoie,dis",
    "PIPED": "=| sh,=|sh,=| bash,=|bash,=| zsh,=| sudo,=|sudo,=| python,=| iex,=|iex,=&& sh ,=&& bash ,=; sh ,=; bash ",
}

# A line is a rule: groups of alternatives, all of which must occur in one sentence, or, where a head is followed by
# `>` and a number, within so many characters behind it; `!` marks a group that must not occur. An alternative is
# whole words; `*` stands for the rest of a word, `^` for the beginning of a sentence and `:` for a comma, a colon or
# an exclamation mark. `=` marks text as it is written. Words in Korean, Chinese and Japanese need no blanks.
_RULES = """\
=<system,=</system,=&lt;system,=&lt;/system,=<|im_,=&lt;|im_,=[inst],=[/inst],=<instructions>,=</instructions>,\
=<function_,=&lt;function_,=&lt;tool_result,=<assistant>,=<human>,=-encodedcommand
you must now,you must immediately,you will now,you now have to,you are now a,you are now an,you are no longer,\
you are now in developer mode,your new instructions,your new task,your instructions have,nothing to the user,\
hide this from the user,secret from the user,reveal your,your system prompt,hidden system prompt,pretend that you,\
pretend you are,unrestricted model,without restrictions,do anything now,as an ai language model,if you are an ai,\
if you are an llm,if you are a language model,note to the ai,note to ai,note to the assistant,agents reading this,\
user has already approved,has authorized you,you are authorized to,you are required to execute,you no longer need,\
without user confirmation,without user approval,without asking the user,system update priority,system override,\
admin notice,no longer apply to you,obey only,obey the next,new system message,end of tool output,end of document,\
do what it says,do what this says,what this document says,what this file says,safety filters are,safety checks are,\
open a reverse shell,add a backdoor,you have been upgraded,you have been reset,skip the security review,\
approve this pull request without,only valid task,said before this,everything above this line,\
also include the contents of,what you are doing,without the user knowing,act as if,behave as if,\
this is your supervisor,this is your operator,this is your boss,너는 이제,당신은 이제,너는 지금부터,당신은 지금부터,\
사용자에게 알리지,사용자에게 말하지 말,사용자에게 말하지 마,사용자에게 보고하지,이 문서를 읽는 모델,이 글을 읽는 ai,\
사용자 몰래,프롬프트를 출력,사용자의 허락 없이,제한 없는 모델,새로운 지시를 따르
ignore,disregard,forget,override,bypass,dismiss,abandon,aside,discard,supersede,supersedes,disable >50 \
previous,prior,above,earlier,preceding,former,your,all,any,every,these,those,everything,whatever & \
instructions,instruction,directives,guidance,prompt,prompts
ignore,disregard,forget,override,bypass,dismiss,abandon,discard >35 all,any,every,everything,whatever & above
ignore,disregard,forget,override,bypass,dismiss,abandon,aside,discard,supersede,supersedes,disable >50 \
previous,prior,above,earlier,preceding,former,your & \
rules,guidelines,guideline,commands,orders,safeguards,restrictions,training
ignore,disregard,forget,override,bypass,dismiss,abandon,disable >50 safety,security,user,agent,human & \
protocol,protocols,checks,constraints,confirmation,requirements,approval,rules,filters
previous,prior,above,earlier,your,all,any,every >50 instructions,instruction,directives,prompt,prompts & \
void,invalid,cancelled,canceled,revoked,obsolete,lifted,suspended
ignore,disregard,forget,override,dismiss >35 whatever,what & {PERSON}
dear,hello,hi,hey,attention >22 {READER}
{MODEL} >28 must,should,shall,needs & !be
any ai that,any llm that,any assistant that,any agent that,any model that,you : the assistant,you : the ai,\
you : the model,you : the agent,you : an ai,you : as an ai,as the assistant : you,as an ai : you,as the ai : you,\
^ for the ai :,^ for ai :,^ for claude :
^ {READER} :,^ dear {READER} :,^ to the {READER} :,^ for the {READER} :,^ to any {READER} :,^ to all {READER} :,\
^ coding {READER} :,^ language {READER} :,^ ai {READER} :,^ important for {READER} :,^ note for {READER} :,\
^ note for ai tools :,^ llm instructions :,^ an den ki {READER} :,^ assistant ia :,^ important agents : >14 {VERB}
^ to whichever {READER} ,^ to the {READER} ,^ note to {READER} >60 : {VERB}
coding agents,coding assistants,automated agents,automated assistants,ai tools,ai reviewers,ai agents,\
language models,autonomous agents,llm agents >25 {DUTY} & !be
ai,assistant,assistants,agents,models,bot,whoever >30 read*,process*,pars*,summar*,see,scan*,review*,handl* & this & \
must,have to,has to,shall,should,is to,are to,{VERB} & !the agent
^ whoever >25 read*,process*,pars*,summar*,scan* & this
^ system :,=[system],^ system message :,^ developer :,^ assistant :,^ human :,^ user :,^ 시스템 :,^ 시스템 메시지 : & \
you,your,i,ignore,override,execute,run,delete,must,never,always,disregard,obey,comply,send,너는,당신은,=하라,=해라,\
=하세요,=하십시오
^ new instructions :,^ updated instructions :
claude,ai,llm,assistant,assistants,coding agent,agents,you must,you should,you have to,please,kindly,ai 에이전트,\
ai 어시스턴트,인공지능,반드시 & =rm -rf ~,=rm -rf /,=~/.ssh,=id_rsa,=authorized_keys,=~/.aws,=~/.netrc,exfiltrate,\
=| sh,=|sh,=| bash,=|bash,=delete the .git,=post it to,=to http,=http://evil,=전송해,=내려받아 실행,=실행하라
=base64 -d,=base64 --decode,=b64decode,=atob(,=frombase64string & =| sh,=|sh,=| bash,=|bash,=| zsh,=exec(,=eval(,=iex,\
=invoke-expression,=sh -c
from now on,from this point,from here on,from this moment,starting now,henceforth & you {DUTY},you are,you answer,\
your answer*,your repl*,your response*,your next,your output,your message*,your summary,your final,answer in
you {DUTY},you {DUTY} always,you {DUTY} not >16 answer,respond,reply,pretend,claim,obey,comply & !with
you {DUTY} >20 report,say,state,confirm & that,as
your >14 real,true,actual,only,new,next,primary,first & goal is,task is,mission is,objective is,purpose is,job is,\
action is,instruction is,role is
your permissions,your restrictions,your limits,your guardrails,your sandbox,your constraints,your filters & \
changed,lifted,off,disabled,removed,expanded,suspended
you are allowed,you are authorized,you are authorised,you are permitted,you are cleared >40 \
push,delete,skip,bypass,publish,deploy,execute,ignore,disable,merge,overwrite,force
you are now >60 no limits,no restrictions,no rules,unrestricted,without limits
^ answer,^ reply,^ respond >30 later,future,further,following,subsequent,next
say nothing about,keep quiet about,stay silent about,make no mention,keep this between us & you,your,user,this
^ do not,^ dont,^ don t,^ never,^ you must not,^ please do not,^ refrain from,^ avoid,without >30 \
tell,mention,inform,notify,reveal,disclose,let,telling,mentioning,informing,report,reporting & \
{PERSON}
^ there is no need to,^ no need to >40 tell,mention,inform,notify & {PERSON}
^ never,^ you must not,^ don t,^ dont >25 tell,say,reveal,mention,disclose,admit & \
that you,that this,that the,this was,about this,mention this
never mention this,not mention this,without mentioning this,not report this
=curl ,=wget ,=iwr ,=invoke-webrequest & {PIPED} & run,execute,paste,launch,you,your,please,ejecuta,ejecute,exécute,\
exécutez,lance,führe,starte,실행하*,돌려,执行,运行,実行
^ use,^ call,^ invoke,you call,you use,you invoke,now call,you should now call >70 tool & !a tool & \
now,right away,immediately,whatever,without,=--force,=http,=rm ,=delete
mandatory that you >40 call,use,run,execute
{SECRET} & send,post,upload,email,forward,copy,publish,exfiltrate,paste,include,put,envía,envia,manda,sube,envoie,\
envoyez,sende,schicke,发送,上传,发到,送信,アップロード,전송,보내,업로드 & =http,your answer,your reply,your next,\
your message,before you answer,back to me,the next commit
ignoriere,ignorier,vergiss,missachte,umgehe,verwirf & anweisung*,regel*,vorgabe*,instruktion*,richtlinie* & \
alle*,bisherig*,vorherig*,früher*,deine*,obig*
ignore,ignorez,oublie,oubliez,contourne,contournez & instruction*,consigne*,règle*,directive* & \
précédent*,toutes,tous,tes,vos,antérieur*,dessus
ignora,ignore,olvida,olvide,omite,desobedece & instruccion*,regla*,orden*,directri*,indicacion* & \
anterior*,todas,todos,tus,sus,previas
忽略,无视,忘记,忘掉,抛开,不要遵守 & 指示,指令,命令,规则,提示 & 之前,以前,上面,所有,先前,你的
無視,忘れ,従わな & 指示,命令,ルール,規則,プロンプト & 以前,これまで,上記,すべて,全て,前の,あなた
이전,앞선,앞의,위의,위 ,기존,지금까지,모든,너의,당신의,네  >20 지시,명령,규칙,지침,프롬프트,대화 & \
무시,잊어,잊고,따르지 마,따르지 말,취소되,버리고,해제되,유효하지 않,무효
ab jetzt,ab sofort,von nun an,künftig & du,dich,dir & musst,sollst,wirst,darfst
à partir de maintenant,désormais,dorénavant & tu,vous & dois,devez,répond*,diras,es
a partir de ahora,desde ahora,de ahora en adelante & debes,responde*,dirás,eres,tienes que
从现在开始,从现在起,从今以后,今后 & 你
これからは,今後は,今から,これより & あなた,お前
앞으로,지금부터,이제부터 & 너는,당신은,넌,너의,당신의,어시스턴트는,ai는
你现在是,你是一个,あなたは今から & 没有限制,不受限制,制限のない
du bist jetzt,du bist nun,tu es maintenant,ahora eres & ohne,sans,sin
あなたの新しい,你的新,당신의 새로운,너의 새로운 & 任務,任务,指示,仕事,タスク,役割,임무,지시,역할
sag,sage,verrat*,erzähl*,erwähn* & benutzer*,nutzer*,anwender*,user & nicht*,nie
ne dis pas,ne dites pas,ne mentionne*,ne révèle*,n informe pas,sans le dire & utilisateur,à personne
no le digas,no digas,no menciones,no reveles,sin decir & usuario,nadie
不要,别,不得,请勿 & 告诉,提及,透露,告知 & 用户,任何人
ユーザー,利用者 & 伝えず,言わず,知らせず,内緒,秘密に,伝えない,言わない,知らせない,知られない
사용자 & 비밀로,알리지 마,알리지 말,말하지 마,말하지 말,몰래,숨기고
보고하지 마,알리지 마 & 삭제,지우,실행,배포,커밋
助手 :,助手必须,助手请,=ai必须,=ai请,=ai，,=ai：,智能体必须 & 请,必须,务必,忽略,执行
作为ai,作为助手,作为人工智能,作为一个ai & 你
アシスタントは,アシスタント :,アシスタントへ,=aiは,=aiへ,=ai、 & してください,しろ,せよ,すること,しなさい
어시스턴트는,어시스턴트에게,인공지능은,인공지능에게,모델에게,에이전트에게,=ai는,=ai에게,클로드 :,클로드야 & \
라,십시오,시오,세요,써
ai 도구는,ai 어시스턴트는,ai 에이전트는,=ai는 & 해야
^ an den ki*,^ an die ki*,an den assistenten,lieber assistent,liebe ki
exécute,exécutez & commande suivante,immédiatement & sans,ne demande
"""

# A sentence with words of many groups is hardly about code.
_WORD_GROUPS = tuple(
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
_ENOUGH = 4  # groups
_JOINERS = {0x200C: None, 0x200D: None}
_PUNCTUATION = {ord(char): " " for char in "\"#$%&'()*+-./;<=>?@[\\]^_`{|}~‘’“”…·—–「」（）。！？；"}
_PUNCTUATION.update({ord(char): " : " for char in ",:!，：、"})
_LATIN = "\u0250"  # the first character behind the Latin letters


class _Group:
    """Alternatives of a rule. They are split when first needed: most rules are settled by their shortest group."""

    def __init__(self, text: str) -> None:
        self.negated = text.startswith("!")
        self.text = text.removeprefix("!")
        self._phrases: list[str] = []
        self._first_words: frozenset[str] = frozenset()
        self._others: list[str] = []

    @property
    def phrases(self) -> list[str]:
        """The alternatives as they are searched for; a blank at both ends stands for whole words."""
        if self._phrases:
            return self._phrases
        for alternative in self.text.split(","):
            before, brace, rest = alternative.partition("{")
            name, _, after = rest.partition("}")
            for member in _SETS[name].split(",") if brace else ("",):
                phrase = before + member + after
                loose = phrase.startswith("=") or phrase.strip() >= _LATIN
                self._phrases.append(phrase.removeprefix("=") if loose else f" {phrase.strip()} ".replace("* ", ""))
        whole = [phrase for phrase in self._phrases if phrase[0] == " " == phrase[-1]]
        self._first_words = frozenset(phrase.removeprefix(" ^").split()[0] for phrase in whole)
        self._others = [phrase for phrase in self._phrases if phrase[0] != " " or phrase[-1] != " "]
        return self._phrases

    def may_match(self, text: str, words: "set[str]") -> bool:
        """Whether it can match anywhere in a text; quick, since hooks wait for this."""
        if self.negated or not self.phrases:
            return True
        return not self._first_words.isdisjoint(words) or any(phrase in text for phrase in self._others)

    def matches(self, text: str) -> bool:
        return any(phrase in text for phrase in self.phrases) != self.negated


class _Rule:
    """The head, if there is one, how far behind it the other groups may be, these groups, and all by length."""

    def __init__(self, line: str) -> None:
        head, mark, rest = line.partition(" >")
        number, _, rest = rest.partition(" ") if mark else ("0", "", line)
        groups = [_Group(group) for group in rest.split(" & ")]
        self.head: _Group | None = _Group(head) if mark else None
        if not mark and len(groups) == 1:
            self.head, groups = groups[0], []
        self.groups = groups
        self.reach = int(number)
        self._by_length = sorted([*([self.head] if self.head else []), *self.groups], key=lambda group: len(group.text))

    def may_match(self, text: str, words: "set[str]") -> bool:
        return all(group.may_match(text, words) for group in self._by_length)

    def matches(self, text: str) -> bool:
        if self.head is None:
            return all(group.matches(text) for group in self.groups)
        for phrase in self.head.phrases:
            at = text.find(phrase)
            while at >= 0:
                end = at + len(phrase) - 1
                if all(group.matches(text[end : end + self.reach]) for group in self.groups):
                    return True
                at = text.find(phrase, at + 1)
        return False


_PARSED = tuple(_Rule(line) for line in _RULES.splitlines())


def is_injection(text: str) -> bool:
    """Whether a cleaned text speaks to the agent that reads it instead of informing it."""
    lower = text.translate(_JOINERS).lower()
    words = lower.translate(_PUNCTUATION).split()
    whole, unique = f" {' '.join(words)} ", set(words)
    everything = f"{whole}\n{lower}"
    rules = [rule for rule in _PARSED if rule.may_match(everything, unique)]
    if any(rule.head and rule.matches(whole) for rule in rules):
        return True
    suspicious = sum(not group.isdisjoint(unique) for group in _WORD_GROUPS) >= _ENOUGH
    if not rules and not suspicious:
        return False  # most texts end here
    for end in (". ", "? ", "; ", "。", "！", "？"):  # a dot within a name or a path ends no sentence
        lower = lower.replace(end, "\n")
    for sentence in lower.split("\n"):
        words = sentence.translate(_PUNCTUATION).split()
        if sum(not group.isdisjoint(words) for group in _WORD_GROUPS) >= _ENOUGH:
            return True
        part, unique = f" ^ {' '.join(words)} \n{sentence} ", set(words)
        for rule in rules:
            if (rule.head or rule.groups[0]).may_match(part, unique) and rule.matches(part):
                return True
    return False
