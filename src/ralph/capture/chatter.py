"""Sentences that tell nothing lasting, whatever they name: reports, plans, passing trouble, and restated code.

Each is recognised by its form and not by its subject: a report begins with what was done, a plan with what is next,
somebody who works test-first says that the test is red, passing trouble has a network or a machine that was down,
and restated code has a name of the code as its subject and a verb that says what code does. A sentence whose words
are mostly its subject's own ("get_json gets json") says nothing either. What the loop itself writes into the journal
about an iteration is no word of the agent. `tests/capture/test_statements.py` holds the sentences.
"""

import re
from collections import Counter
from functools import lru_cache

from ralph.search.terms import STOP_WORDS, split_words, word_terms

_OF_LOOP = re.compile(
    r"the agent (?:did not say that the task is done|says that it failed|reached its limit of|could not be reached"
    r"|refused\b|crashed\b|took too long and was stopped)|it was called done, but the criteria do not agree"
    r"|it named \S+, which is not the assigned task|stopped before all criteria were checked"
)
"""What `loop.judge` writes about an iteration."""
_DONE = re.compile(
    r"""(?ix)^\W*(?:(?:i|we|then|now|next|also|just|today|so|ok(?:ay)?|first|finally|and|done:?)[\ ,:]+)*
    (?:have\ |has\ |had\ |'ve\ )?
    (?:implement(?:ed|ing)|add(?:ed|ing)|fix(?:ed|ing)|updat(?:ed|ing)|refactor(?:ed|ing)|creat(?:ed|ing)
    |mov(?:ed|ing)|renam(?:ed|ing)|remov(?:ed|ing)|delet(?:ed|ing)|clean(?:ed|ing)|wrote|writing|written|ran|running
    |re-?ran|finish(?:ed|ing)|complet(?:ed|ing)|start(?:ed|ing)|work(?:ed|ing)\ (?:on|through)|continu(?:ed|ing)
    |going\ to|will|let\ me|let['’]s|look(?:ed|ing)|check(?:ed|ing)|review(?:ed|ing)|read(?:ing)?|investigat(?:ed|ing)
    |commit(?:ted|ting)|push(?:ed|ing)|merg(?:ed|ing)|open(?:ed|ing)|done|wip|made|got|pick(?:ed|ing)\ up
    |resum(?:ed|ing)|wait(?:ed|ing)|meanwhile|still\ \w+ing|migrat(?:ed|ing)|port(?:ed|ing)|convert(?:ed|ing)
    |replac(?:ed|ing)|deploy(?:ed|ing)|rebas(?:ed|ing)|reformatt(?:ed|ing)|rewr(?:ote|iting)
    |extract(?:ed|ing)|split|wired|hooked|bumped|tweaked|polished|verified|confirmed|tests?\ (?:pass|are|were|all
    |green)
    |all\ (?:tests?|checks?|green|good|done)
    |everything\ (?:works?|passes|is|builds|runs|went|green|fine|passed)|progress|status|iteration|iteración|step\ \d
    |looks\ good|lgtm|halfway
    |part\ \d|story|task|feature|the\ (?:feature|task|story|page|screen|form|endpoint)\ is|most\ of|a\ (?:bit|few))\b
    |^[^.;:]{0,50}?\b\d+\ (?:of|out\ of|von|sur|de|di)\ (?:the\ )?\d+\ \w+\ (?:done|left|migrated|converted|finished
    |fertig|hech|prêt)
    |^\W*\w+\ \d+\ (?:of|out\ of|von|sur|de|di)\ (?:the\ )?\d+\b|^[^.;:]{0,40}\bis\ (?:at|about)\ \d+\ ?%
    |\b\d+\ (?:tests?|specs?|pruebas)\ (?:are\ |all\ )?(?:green|grün|verts?|en\ verde|passed|pass)\W*$|,\ \d+\ green\W*$
    |(?:个测试通过|件成功|개\ 통과)\W*$|^\W*(?:today|heute|hoy|aujourd['’]hui|fait|hecho|erledigt)\ ?:
    |^[^.;:]{1,40}\ (?:done|finished)(?:,|\ and)\b
    |^[^.;:]{1,40}\ (?:is|are|sind|ist)\ (?:in|drin),\ |\bin\ progress\W*$
    |^\W*coverage\b|^\W*\d+\ (?:tests?|specs?|cases|checks)\ (?:green|pass\w*|ok|done|now|grün|verts?)
    |^\W*(?:session|sesión|sitzung|séance|itération|avancement|avancé|avancée|fortschritt|stand)\b[^.]{0,12}?[:\d]
    |^\W*avancé\ con\b|^\W*good\ progress\b
    |^\W*(?:j['’]ai|on\ a|nous\ avons|fini|terminée?s?|fait\ :|en\ cours|je\ continue|suite\ de)\b
    |^\W*(?:ho|abbiamo|fatto|finito|feito|concluíd[oa]|terminei)\b|^\W*(?:habe|ich\ habe|wir\ haben|fertig|erledigt
    |arbeite|weiter\ mit|heute)\b
    |^\W*(?:ahora|sigo|seguimos|empiezo|listo|hecho|terminad[oa]|he\ \w+do)\b|[했됐었았]습니다\W*$|(?:完了|終了|修正
    |追加|実装|作成)(?:しました|した|済み)\W*$|(?:시작|진행)합니다
    |^[^.]{0,60}(?:했다|했음|하였다|완료|진행\ ?중|작업\ ?중|마쳤|끝났|추가함|수정함|구현함)\W*$
    |^\W*(?:已经?|完成了?|添加了|修复了|更新了|正在|开始|继续|今天)
    """
)
_WORK = re.compile(
    r"(?i)\W*(?:implement\w*|add(?:s|ed|ing)?|creat\w+|introduc\w+|support\w*|handl\w+|buil(?:d|t|ds)|new|class"
    r"|function|method|struct|component|endpoint|stub|basic|initial|first (?:version|cut|draft)|minimal)\b"
)
"""How the summary of an edit begins that makes something: work, and nobody's reason."""
_PLAN = re.compile(
    r"""(?ix)^\W*(?:to-?do|fixme|next(?:\ steps?|\ up|\ iteration|:|,)|tomorrow|remaining|plan(?::|\ is)
    |follow[-\ ]?ups?
    |still\ (?:need|to|have|open|missing)|(?:i|we)?\ ?(?:need|want|have)\ to\ (?:look|check|finish|add|write|implement
    |investigate|think|come\ back|revisit|see|ask|figure)|(?:i|we)\ (?:will|should|could|might|may)|maybe|perhaps
    |should\ (?:look|check|revisit|probably|be\ (?:easy|done|fine|good|enough|quick))|hopefully|als\ nächstes
    |noch\ offen
    |later:|open:|ask\ (?:the|whether|\w+\ (?:about|whether|if))|question\b|to\ be\ (?:discussed|decided|done)|tbd\b
    |offen:|es\ fehlt|reste\ à|il\ reste|à\ faire|prochaines?\ étapes?|il\ faut\ encore|ensuite|da\ fare|resta\ da
    |por\ hacer|pendiente|a\ fazer|próximos?\ passos?|siguientes?\ pasos?
    |falta|queda|다음|남은|接下来|下一步|待办|todo)
    |(?:残り|やること|次は|할\ 일)|[?？]\W*$|\bto\ be\ (?:discussed|decided)\b
    |\bby\ (?:tomorrow|tonight|next\ week|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bcontinue\ tomorrow\b"""
)
_BRIEF = re.compile(
    r"""(?ix)(?:^\W*|[.!?]\s+)(?:ticket|issue\ \#?\d+|(?:the\ |our\ )?(?:goals?|aims?|objectives?|assignment|brief
    |briefing)
    (?:\ (?:for|of)\ [^:.]{1,30}|\ here|\ now|\ today)?|objectifs?|but|ziel|aufgabe|auftrag|objetivos?|tareas?|obiettivo
    |목표|과제|目标|任务|目標)\ ?[:：]
    |(?:^\W*|[.!?:]\s+)(?:on\ commence\ (?:par|avec)|empezamos\ (?:por|con)|wir\ (?:fangen|beginnen)\ mit|we\ (?:start
    |begin)\ with
    |start\ (?:with|by)|please\ (?:start|begin|implement|build|add)|(?:i|we)\ want\ (?:the|a|an|you|to)\b
    |cominciamo\ (?:da|con))\b"""
)
"""Somebody who says what is to be done in a session: nothing has been learned yet."""
_PASSING = re.compile(
    r"""(?ix)\b(?:network|wi-?fi|internet|vpn|registry|mirror|proxy|dns|disk|port|api|server|service|ci|runner|github
    |npm|pypi|docker\ hub)\b.{0,40}\b(?:was|were|is|got|seems?|seemed|went)\b.{0,20}
    \b(?:down|slow|slower|full|busy|unreachable|unavailable|flaky|taken|in\ use|overloaded|throttled|back
    |rate[-\ ]?limit\w*)\b
    |\b(?:blip|hiccup|glitch|outage|one-?off|transient|temporar(?:y|ily)|intermittent)\b
    |\b(?:worked|passed|fine|green|ok|succeeded)\ (?:on|after|at)\ (?:the\ |a\ )?(?:re-?run|re-?try|second|next
    |another)
    |\b(?:retr(?:y|ied|ying)|re-?r[au]n(?:ning)?)\b.{0,40}\b(?:worked|passed|fixed|helped|fine|ok|succeeded|green)\b
    |\b(?:re-?boot(?:ed|ing)|hiccup)\b|\b(?:for|during|in)\ maintenance\b|\bse\ cayó\b
    |\b(?:was|were|had|got)\ (?:re-?started|still\ (?:starting|booting)|unplugged|switched\ off|dropped|updating
    |offline)\b
    |잠깐|끊겼|断了|抖了一下|落ちて?いた|繋がらな
    |\b(?:réseau|registre|serveur|connexion|vpn|disque)\b.{0,30}\b(?:coupée?|lente?|plein|indisponible|en\ panne
    |tombée?)\b
    |\b(?:netz|netzwerk|vpn|server|registry|pypi|npm|platte)\b.{0,30}\b(?:hing|langsam|weg|voll|nicht\ erreichbar
    |ausgefallen)\b
    |\b(?:red|servidor|registro|conexión|disco)\b.{0,30}\b(?:lent[oa]|caíd[oa]|llen[oa]|cortad[oa])\b
    |\b(?:zweiter|nochmaliger)\ (?:versuch|anlauf)\b|\breconnect(?:ed|ing)\b|\b(?:lost|dropped)\ the\ (?:vpn|network
    |connection)\b
    |\b(?:rate[-\ ]limit|quota)\b.{0,20}\b(?:hit|reached|again)\b|\bout\ of\ disk\b|\brelancée?\b
    |\b(?:ran\ out\ of\ disk|no\ space\ left|rate[-\ ]limited|timed\ out\ once)\b"""
)
_ACCIDENT = re.compile(
    r"""(?ix)\b(?:forgot(?:ten)?|overlooked|by\ (?:mistake|accident)|accidental(?:ly)?|mistyped|misspel\w+|typos?
    |copy[-\ ]?(?:and[-\ ])?past\w+|slip\ of|my\ (?:mistake|fault|bad)|wrong\ (?:key|window|tab|branch|folder)
    |(?:was|were|had|been)\ (?:not|never)\ (?:been\ )?(?:copied|saved|committed|pasted|staged|typed|carried)
    |(?:wasn|weren|hadn)['’]t\ (?:been\ )?(?:copied|saved|committed|pasted|staged|typed|carried)
    |vergessen|versehentlich|vertippt|Tippfehler|oubli\w*|par\ erreur|coquille|olvid\w+|por\ error|errata
    |dimenticat\w+|esquec\w+)\b|깜빡|실수로|오타|忘了|忘记|手误|笔误|打错|うっかり|忘れ"""
)
"""Somebody's slip: true once."""
_TEST_FIRST = re.compile(
    r"""(?ix)\b(?:tests?|specs?)[-\ ]first\b | \bTDD\b | \btest[-\ ]driven\b | \bred[-\ ,]*(?:then\ )?green\b
    | ^\W*red\b | \(red\)
    | \b(?:tests?|specs?|asserts?)\b[^.]{0,60}\b(?:is|are|be|both|still|all|stays?|goes)\ red\b
    | \b(?:write|writ\w+|wrote|add\w*|commit\w*|start\w*|with)\b[^.]{0,30}\b(?:failing|red)\ (?:tests?|specs?)\b
    | \b(?:failing|red)\ (?:tests?|specs?)\b[^.]{0,30}\b(?:first|committed|written|added|before)\b
    | \b(?:tests?|specs?)\ (?:for|of)\b[^.]{0,60}\bfirst\b | \bfirst\ (?:the|a)\ (?:\w+\ )?(?:test|spec)\b
    | \b(?:tests?|specs?)\b[^.]{0,20}\bmust\ (?:be\ red|fail)\b
    | \bfails?\ (?:since|because|as|until)\b[^.]{0,60}\b(?:no-op|stub|yet|not\ (?:written|implemented))\b
    | \b(?:tests?|specs?)\b[^.:]{0,20}\b(?:goes|go|comes|come|is\ written|are\ written)\ first\b
    | \b(?:le|les|un)\ tests?\b[^.]{0,30}\b(?:d['’]abord|en\ premier|rouges?|échoue\w*\ comme)\b
    | \bTests?\b[^.]{0,20}\b(?:erwartungsgemäß|wie\ (?:erwartet|geplant))\b | (?:期待|予定)通り
    | テスト[^。]{0,8}(?:先に|から書)
    | \b(?:as\ (?:expected|planned|it\ should\ be)|on\ purpose)\b(?=[^.]*\b(?:undefined|missing|red|not\ there)\b)
    | \b(?:tests?|specs?)\b[^.]{0,30}\b(?:red|fails?|failing)\b[^.]{0,12}\bas\ (?:expected|planned|it\ should)\b
    | \bd['’]abord\b[^.]{0,20}\btests?\b
    | \breproduc\w+\b[^.]{0,30}\bin\ a\ (?:test|spec)\b
    | \b(?:erst|zuerst)\b[^.]{0,30}\bTests?\b | \bTests?\b[^.]{0,20}\b(?:zuerst|rot)\b | 先写[^。]{0,12}测试
    | (?:실패하는|먼저)[^.]{0,12}테스트 | 테스트[^.]{0,8}먼저 | \bprimero\b[^.]{0,30}\b(?:tests?|pruebas?)\b"""
)
"""Somebody who writes the test before the code: that it fails then is what was wanted."""
_OWN = re.compile(
    r"""(?ix)^\W*(?:(?:ok(?:ay)?|now|so|and|then|first)[\ ,]+)*(?:i|i['’](?:m|ll|ve|d)|let\ me|let['’]s|ich|je|voy|vamos
    |estoy|he|please\ (?:wait|look|check)|저는|제가|我(?!们))\b|(?:겠습니다|드립니다|할게요)\W*$"""
)
"""Somebody who tells what they do themselves."""
_PART = (
    r"(?:functions?|methods?|class(?:es)?|components?|modules?|files?|constructors?|hooks?|endpoints?|structs?|enums?"
    r"|interfaces?|helpers?|types?|variables?|constants?|routes?|handlers?|propert(?:y|ies)|fields?|params?|parameters?"
    r"|arguments?|packages?|folders?|director(?:y|ies)|decorators?|tables?|models?|schemas?|objects?|scripts?|tests?"
    r"|reducers?|services?|controllers?|props?|middleware|loops?|imports?)"
)
_SAYS = (
    r"(?:takes|accepts|returns|has|have|contains|defines|exports|imports|inherits|extends|implements|renders"
    r"|calls|receives|wraps|holds|consists|stores|loops|iterates|converts|parses|maps|sets|gets|reads"
    r"|writes|prints|logs|validates|computes|calculates|checks|uses|handles|sends|fetches|loads|creates|adds"
    r"|is\ (?:a|an|the|defined|declared|located|called|used|in|imported|exported|responsible|named)|are\ (?:defined|in)"
    r"|delegates|filters|sorts|triggers|emits|dispatches|registers|initiali[sz]es|raises|throws|yields|generates"
    r"|joins|splits|counts|increments|compares|updates|deletes|removes|inserts|saves|queries"
    r"|expects|provides|represents|builds|formats|lists|declares|includes|describes|combines|exposes|decodes|encodes"
    r"|walks|encapsulates|groups|collects|offers|denies|belongs\ to|has\ many|gives\ back|keeps|notifies|replies"
    r"|switches|matches)"
)
_ROMANCE_PART = (
    r"(?i:contrôleur|controlador|fonction|classe|méthode|fichier|module|composant|dossier|table|route|service|función|clase|método|archivo|módulo"
    r"|componente|carpeta|tabla|ruta|funzione|metodo|modulo|cartella|tabella|função|arquivo|pasta|tabela|rota)"
)
_ROMANCE_SAYS = (
    r"(?:reçoit|additionne|calcule|vérifie|suma|calcula|verifica|renvoie|retourne|contient|possède|expose|définit|exporte|appelle|prend|lit|écrit|crée|affiche|hérite"
    r"|recibe|devuelve|tiene|define|contiene|llama|exporta|expone|lee|escribe|crea|muestra"
    r"|riceve|restituisce|ritorna|ha|definisce|espone|legge|scrive|recebe|devolve|retorna|tem|contém|chama|expõe)"
)
_GERMAN_SAYS = (
    r"(?:nimmt|gibt|liefert|enthält|hat|definiert|erwartet|ruft|exportiert|bekommt|summiert|berechnet|liest|schreibt|prüft"
    r"|erzeugt|speichert|lädt|wandelt|sortiert|filtert|erbt|implementiert|verwendet|benutzt)"
)
_CODE_NAME = (
    r"(?:`[^`]{1,80}`|\w+(?:(?:\.|::|->|\#)\w+)+(?:\([^)\n]{0,60}\))?|\w+\(\w{0,40}[^)]{0,40}\)|\w+_\w+|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+"
    r"|[\w/.-]+\.(?:py|[jt]sx?|go|rs|java|rb|c|cpp|h|cs|kt|php|sql|vue))"
)
_RESTATED = re.compile(
    rf"""(?x)
    ^\W*(?:{_CODE_NAME}:?\ )?(?:(?:[Tt]he|This|A|An|Each|In|Here,?|Our|And|Also,?)\ )?(?:\w+\ ){{0,2}}
    (?:(?i:{_PART})\ (?:{_CODE_NAME}|\S+/\S*)|{_CODE_NAME}(?:\ (?i:{_PART}))?|(?i:{_PART}))
    (?:\ (?:in|from|of|at|inside)\ \S+)?,?\ (?:also\ |then\ |just\ |simply\ |now\ )?
    (?:{_SAYS}|(?:lives?|sits?|stands?|is)\ in)\b
    |^\W*(?:There\ (?:is|are)|It|They)\ (?:an?\ |the\ |one\ |two\ |\d+\ )?(?:\w+\ ){{0,2}}(?i:{_PART}|takes|returns)\b
    |(?:Die|Der|Das|Eine?)?\ ?(?:Funktion|Klasse|Methode|Datei|Komponente|Modul|Controller|Service|Tabelle
    |Ordner)\b.{{0,60}}
     \b{_GERMAN_SAYS}\b|^\W*{_CODE_NAME}\ {_GERMAN_SAYS}\b
    |^\W*(?:In\ \S+\ (?:there\ (?:is|are)|gibt\ es|hay)|Dans\ \S+,?\ il\ y\ a|(?:There\ (?:is|are)|Il\ y\ a|Hay
    |Es\ gibt)\b.{{0,40}}\ (?:in|dans|en)\ {_CODE_NAME})\b
    |^\W*(?:The\ )?(?i:{_PART})\ \S+\ (?:in|from|of)\ \S+\ \w+s\b|^\W*(?:\S+:\ )?`?\w+\([^)\n]{{0,60}}\)`?\ \w+s\b
    |^\W*\S+\ (?:takes|gets)\ its\ arguments\b|^\W*\S+\ (?:steht|liegt|ist)\ in\ \S+\W*$
    |^\W*\S+(?:\ 함수는?|는|은|가)?\ \S+에\ (?:있다|정의)
    |^\W*\S+\ ?在\ ?\S+\ ?(?:里|中)?定义|^\W*\S+/\S+\ {_SAYS}\b
    |(?:함수|클래스|메서드|파일|모듈|컴포넌트|컨트롤러|서비스).{{0,60}}(?:받|반환|정의|포함|호출|돌려|제공|(?:메서드
    |함수|필드)[가이]\ 있)
    |(?:函数|类|方法|文件|模块|组件|控制器|服务).{{0,60}}(?:接受|接收|返回|定义|包含|调用|导出|提供|方法)
    |(?:関数|クラス|メソッド|ファイル|モジュール|コンポーネント).{{0,60}}(?:持つ|持って|返す|返し|定義|含む|呼ぶ|呼び
    |受け取|ある)
    |^\W*{_CODE_NAME}\ ?(?:は|가|이|는|은|会)?.{{0,40}}(?:[をし](?:返す|返します|計算する|持つ|表示する|作成する)|を使う
     |반환한다|돌려준다|보여준다|만든다|사용한다|(?:显示|返回|创建|调用|使用)\ ?\S{{0,12}})\W*$
    |(?i:модуль|класс|функция|файл|метод|bestand|klasse|functie|klasa|plik|funkcja)\b.{{0,60}}
     \b(?:содержит|имеет|возвращает|определяет|bevat|heeft|exporteert|geeft|ma|zawiera|zwraca)\b
    |^\W*(?:(?:El|La|Una?|Il|Lo|Un|O|Le|La|L['’]|Une)\ ?)?{_ROMANCE_PART}\b.{{0,60}}\b{_ROMANCE_SAYS}\b
    |^\W*{_CODE_NAME}\ {_ROMANCE_SAYS}\b
    """
)
_SUBJECT = re.compile(rf"\W*(?:The\ |This\ )?({_CODE_NAME}|[A-Z][a-z]+[A-Z]\w+)\ [a-z]+s\b")
_THE_USES = re.compile(rf"(?x)\W*(?:The|This|A|An|Our)\ (?:[\w-]+\ ){{1,3}}{_SAYS}\b[^,;:]*$")
_ACTS = re.compile(
    rf"(?x)\W*(?:The\ )?(?:(?i:{_PART})\ )?{_CODE_NAME}(?:\ (?i:{_PART}))?\ (?:re-)?[a-z]+(?:s|ed\ in)\ "
)
_SURPRISES = re.compile(
    r"(?i)\d|\b(?:not|no|never|nothing|but|wrong|wrongly|still|twice|only|even|already|instead|without|differ\w*|fails?|breaks?"
    r"|drops|loses|ignores|silently|needs?|throws|crashes|hangs|leaks|rejects|refuses|expires|because|so|if|when|unless)\b|n['’]t\b"
)
"""What nobody says who only reads the code aloud."""
_REPEATED = 0.4
"""The part of a sentence's words that are its subject's own, or one and the same."""
_OFTEN = 3
_REMEMBERED = 2048
"""Sentences that are remembered: each is asked about several times in a row."""
_BACKTICKED = re.compile(r"`[^`\n]*`")


def is_of_loop(text: str) -> bool:
    """Whether a text begins with the loop's own words about an iteration."""
    return _OF_LOOP.match(text.lstrip()) is not None


@lru_cache(_REMEMBERED)
def is_report(text: str) -> bool:
    """Whether a text begins with what was done."""
    return _DONE.search(text) is not None


def is_work(text: str) -> bool:
    """Whether the summary of an edit begins with something that is made."""
    return _WORK.match(text) is not None


@lru_cache(_REMEMBERED)
def is_plan(text: str) -> bool:
    """Whether a text begins with what is to be done."""
    return _PLAN.search(text) is not None


def is_brief(text: str) -> bool:
    """Whether a text says what a session is for."""
    return _BRIEF.search(text) is not None


@lru_cache(_REMEMBERED)
def is_passing(text: str) -> bool:
    """Whether a text tells of trouble that went away."""
    return _PASSING.search(text) is not None


def is_accident(text: str) -> bool:
    """Whether a text tells of somebody's slip."""
    return _ACCIDENT.search(text) is not None


@lru_cache(_REMEMBERED)
def is_test_first(text: str) -> bool:
    """Whether somebody tells that a test fails because its code is not there yet."""
    return _TEST_FIRST.search(text) is not None


def is_own(text: str) -> bool:
    """Whether somebody tells what they do or must do themselves."""
    return _OWN.search(text) is not None


@lru_cache(_REMEMBERED)
def is_restated(sentence: str) -> bool:
    """Whether a sentence only says what stands in the code, or says a name again in words."""
    if _RESTATED.search(sentence):
        return True
    found = _SUBJECT.match(sentence)
    subject = {term for word in split_words(found[1]) for term in word_terms(word)} if found is not None else set()
    rest = [
        {*word_terms(word)}
        for word in split_words(sentence[found.end(1) if found is not None else 0 :])
        if word.lower() not in STOP_WORDS
    ]
    often = max(Counter(term for terms in rest for term in terms).values(), default=0)
    again = max(sum(1 for terms in rest if terms & subject), often if often >= _OFTEN else 0)
    return len(rest) > 0 and again >= _REPEATED * len(rest)


def only_describes(sentence: str) -> bool:
    """Whether a sentence of one clause says what a thing uses, holds or calls: nothing, unless it has a rule."""
    plain = _SURPRISES.search(_BACKTICKED.sub("x", sentence)) is None
    return _THE_USES.match(sentence) is not None or (plain and _ACTS.match(sentence) is not None)
