"""Words that stand in everybody's sentences about software, and so say nothing about a project.

`search.everyday` has the frequent words of English; here are those of the trade, in English and in the other
languages in which agents take notes, with the small words of these languages. What is left of a sentence without
them is what it is about: "never ship broken code, it blocks the others" has nothing left, in no language.
`tests/capture/test_statements.py` holds such sentences.
"""

import re

from ralph.capture.secret_values import words_of

_ENGLISH = """
    test tests testing tested tester code codes coding coded codebase quality clean cleaner good better best practice
    practices review reviews function functions method methods class classes file files project projects feature
    features task tasks work works working bug bugs issue issues error errors fix fixes fixed problem problems app
    application system systems user users data change changes changed implement implementation implemented add added
    update updated improve improved improvement refactor refactoring run runs running build builds check checks
    checked pass passes passed passing fail fails failed failing failure write writing written read reading
    documentation docs document comment comments name names naming simple small readable readability maintainable team
    communication time plan planning step steps edge cases case input inputs output outputs validate validation
    handle handling careful carefully important importance help helps helpful learn learned learning lesson lessons
    lot great nice progress done finish finished complete completed iteration story stories session understand
    understanding existing logic line lines big large long short deep commit commits branch pull request merge
    design architecture structure structured consistent consistency debug debugging debugger log logs logging message
    messages performance fast slow easy hard tricky useful useless value values result results thing things way ways
    always never must should make sure because since before after otherwise instead everything everyone people keep
    early late later first often proper properly correct correctly right wrong software developer developers future
    requirements requirement spec specs clear clearly think thinking patience patient attention detail details effort
    module modules component components library libraries tool tools command commands script scripts started starting
    green red coverage cover solid robust safe safer stable order crucial key essential matter matters whole sense
    today yesterday morning afternoon moment again suite needed need needs required require requires save saves saving
    frequently regularly possible approach solution solutions start end dependency dependencies version versions
    variable variables parameter parameters return returns type types object objects string strings list lists
    implementing writing reviewing understanding functionality meaningful descriptive modular duplicated duplication
    duplicate avoid prefer follow following conventions convention standard standards style guide guidelines
    trust double twice focus smaller bigger quickly slowly care forget remember compile compiles compiled compiling
    broken ship shipping ships shipped deliver delivering block blocks blocked easier maintain maintaining helper
    handled helpers split cleanup tidy colleagues teammates reviewer reviewers engineer engineers refactored rewritten
"""
_GERMAN = """
    man sollte sollten immer nie der die das ein eine einen und oder ist sind wird werden nicht mit auf für von zu den
    dem des im am bei sich auch nur noch wenn dann weil dass kann können muss müssen haben hat sehr gut wichtig
    schreiben sauber sauberen lesen vor nach aus als wie wir ich einem einer keine kein vom zum zur über unter bis
    damit sonst deshalb daher denn aber doch alle alles andere anderen ihre ihr sein seine diese dieser dieses dort
    hier jetzt schon mehr weniger erst zuerst niemals bevor nachdem ohne gegen durch etwas nichts testen getestet
    fehler datei dateien klasse klassen funktion funktionen methode methoden projekt aufgabe änderung änderungen
    ausführen laufen lassen passieren entstehen
    lesbar lesbarer verstehen kaputten kaputter kaputt ausliefern entwickler entwicklern blockiert prüfen geprüft
"""
_FRENCH = """
    les une des est sont pas aux avec pour dans sur par que qui quoi dont mais donc car cela cette ces son ses leur
    leurs nous vous elle ils elles être fait faire faut doit doivent plus moins tout tous toute toutes bien mieux
    autre autres avant après toujours jamais quand comme sans sous entre aussi très peut peuvent ici déjà encore
    tester testé fichier fichiers classe fonction fonctions méthode méthodes projet tâche erreur erreurs corriger
    corrigé changement changements propre propres lisible lisibles livrer livré cassé cassée casse bloque bloquer
    développeur développeurs équipe vérifier vérifié écrire écrit lire comprendre utile utilise utilisent utiliser
    lancer pousser exécuter
    compiler important importante qualité travail travailler simple petit petite petits petites bon bonne bonnes
"""
_SPANISH = """
    las los una unas unos con para por que como pero sin sobre entre cuando donde desde hasta más menos todo todos
    toda todas muy bien mejor otro otros otra otras antes después siempre nunca hay debe deben puede pueden este esta
    estos estas ese esa aquí son está están ser hacer hace cada porque así también probar probado prueba pruebas
    archivo archivos clase clases función funciones método métodos proyecto tarea cambio cambios limpio limpia
    legible entregar roto rota bloquea desarrollador desarrolladores equipo revisar escribir leer entender útil usa
    ejecutar subir usan usar compilar importante calidad código trabajo
"""
_OTHERS = """
    gli del della delle dei nel nella con per che non più come anche sempre mai prima dopo deve devono può codice
    classe metodo funzione errore errori modifica modifiche pulito importante qualità scrivere leggere provare
    uma umas uns com não mais mas também sempre depois deve devem pode podem código arquivo arquivos função erro
    erros teste testes testar mudança mudanças limpo equipe escrever ler het een van met voor niet maar ook altijd
    nooit moet moeten kan kunnen bestand bestanden klasse functie fout fouten schrijven lezen testen
"""

WORDS = words_of(" ".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _OTHERS)))
SIGNS = re.compile(
    "코드|테스트|작성|깔끔|중요|항상|해야|한다|하는|것이|것은|먼저|반드시|필요|실행|수정|뒤에는|파일|함수|클래스|때문|사용|합니다"
    "|コード|テスト|大事|重要|必ず|書く|書き|読みやす|する|こと|必要|実行|変更|修正|がある|である|ため|ファイル|関数|クラス|ので|です|ます"
    "|代码|测试|整洁|保持|容易|维护|重要|一定要?|必须|需要|因为|否则|这样|出错|更|文件|函数|方法|写|我们|可以|应该|运行|修改"
)
"""The same in languages that do not part their words by blanks."""
