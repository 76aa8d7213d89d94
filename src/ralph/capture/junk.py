r"""Failures that teach nothing: expected ones, passing trouble, and what everybody's work is full of.

A command that looks for something may fail (`grep`, `test -f`, `diff`); a network, a port or a disk has a bad day;
somebody presses Ctrl-C; a word was misspelt; an assertion fails because the work is not done yet. Each test here
is about one command or one text; what they mean together, with what was done about it, is decided by `fixes`.
`tests/capture/situations.py` holds a case for each.
"""

import re

from ralph.capture.commands import Words
from ralph.capture.secret_values import words_of

_LOOKING = words_of(
    """grep egrep fgrep zgrep rg ag ack ls cat bat less more head tail find fd test [ [[ diff cmp colordiff which type
    command stat file pgrep wc cd pushd echo printf sleep kill pkill killall fuser rm rmdir mkdir touch cp mv ln chmod
    sed awk cut sort uniq tr xargs jq yq curl wget http ping nc dig nslookup host ps lsof netstat ss df du free top
    uptime date env printenv whoami id hostname pwd tree man history true false expr read wait jobs exit set unset
    realpath readlink basename dirname seq tee column fold nl od xxd strings md5sum sha256sum open xdg-open telnet
    vim nano code"""
)
"""Programs that look or tidy up: that one of them fails is an answer."""
_READING = _LOOKING - words_of("rm rmdir mkdir touch cp mv ln chmod sed tee kill pkill killall fuser set unset") | {
    "type"
}
"""Programs that change nothing."""
_PASSING_BY = words_of("kill pkill killall fuser mkdir touch kinit ssh-add reboot")
_ONCE = words_of(
    """login log-in auth restart kill-server start-server reconnect unlock force-unlock reboot shutdown stop erase
    watch-del-all logout"""
)
"""Programs, and first words of programs, that clear the way once and are no lesson."""
_GIT_READING = words_of(
    "status log diff show blame branch grep ls-files rev-parse describe remote config reflog shortlog tag"
)
_GIT_EVERYDAY = words_of("add commit stash push pull checkout switch restore reset merge rebase cherry-pick fetch")
_ASKED = words_of(
    """show list ls info inspect get get-value describe status logs ps top view cat whoami path doctor outdated why tree
    search ping which version help config:get explain freeze env"""
)
"""First words by which a program is asked and told nothing."""
_FORMATTERS = words_of(
    "prettier black isort rustfmt gofmt goimports shfmt yapf autopep8 clang-format dprint eslint ruff"
)
_ASKING = re.compile(r"(?:^|\s)(?:--version|-v|-V|--help|-h|version|help|--dry-run)\s*$")

_INTERRUPTED = re.compile(
    r"""(?ix)\^C | \binterrupt(?:ed)?\b(?!\ handler) | \bKeyboardInterrupt\b | \bSIG(?:INT|TERM)\b
    | \b(?:cancel+ed|aborted|stopped|killed|terminated)\ (?:by|at|on)\ (?:the\ )?(?:user|request|operator|developer
    |me)\b
    | \bexit(?:ed)?\ (?:with\ )?(?:code|status)?\ ?:?\ ?(?:130|143)\b | \boperation\ was\ cancel
    | \brequest\ interrupted
    | \babgebrochen\b | 사용자.{0,6}중단 | 用户.{0,4}(?:中断|取消)"""
)
_PASSING = re.compile(
    r"""(?ix)\bETIMEDOUT\b | \bECONNRESET\b | \bECONNABORTED\b | \bEAI_AGAIN\b | \bENOTFOUND\b | \bgetaddrinfo\b
    | \bENETUNREACH\b | \bEHOSTUNREACH\b | \bESOCKETTIMEDOUT\b | \bEPIPE\b | \bsocket\ hang\ up\b
    | (?:connection|read|network|request|handshake|gateway|operation|fetch|download)\ (?:was\ |has\ )?
    time(?:d\ )?[-\ ]?out
    | time(?:d\ )?out\ (?:while|when)\ (?:connecting|downloading|fetching|reading|waiting) | Temporary\ failure
    | could\ not\ resolve\ host | name\ resolution | network\ is\ unreachable | connection\ (?:was\ )?reset
    | remote\ end\ (?:hung\ up|closed) | early\ EOF | RPC\ failed | TLS\ handshake | unexpected\ EOF | broken\ pipe
    | \bENOSPC\b | no\ space\ left | disk\ (?:is\ )?full | disk\ quota | not\ enough\ (?:free\ )?(?:disk\ )?space
    | \bEADDRINUSE\b | address\ already\ in\ use | port\ \S*\ ?(?:is\ )?(?:already\ )?(?:in\ use|allocated|taken
    |occupied)
    | bind\ for\ \S+\ failed | \brate[-\ ]?limit | too\ many\ requests | \b429\b | secondary\ limit | quota\ exceeded
    | \b50[0234]\ (?:bad|service|gateway|internal) | (?:bad|502|503|504)\ gateway
    | service\ (?:is\ )?(?:temporarily\ )?unavailable
    | \bHTTP(?:/\d(?:\.\d)?)?\ (?:error\ )?50[234]\b | \bstatus(?:\ code)?:?\ 50[234]\b | \boverloaded\b
    | already\ running | \bEBUSY\b | resource\ busy | text\ file\ busy | could\ not\ get\ lock | state\ lock
    | (?:docker|adb)?\ ?daemon\ (?:is\ )?not\ running | connect\ to\ the\ docker\ daemon
    | Expired(?:Token|Credentials)\w* | (?:token|session|password|credentials?|ticket|login)\b.{0,40}\bexpired\b
    | not\ logged\ in | (?:please|to)\ (?:re-?)?log\ ?in\b
    | connection\ aborted | Max\ retries\ exceeded | ReadTimeout | ConnectTimeout | IncompleteRead | i/o\ timeout
    | context\ deadline\ exceeded | toomanyrequests | could\ not\ connect\ to\ (?:the\ )?(?:server|registry|host)
    | index\.lock | another\ git\ process | must\ be\ logged\ in | login\ required | session\ (?:has\ )?expired
    | token\ (?:has\ )?expired | proxy\ error | dial\ tcp | Could\ not\ fetch | failed\ to\ (?:fetch|download)
    | registry\.\S+\ (?:failed|timed)
    | unable\ to\ access\ 'http | 네트워크 | 타임아웃 | Netzwerk | Zeitüberschreitung | 网络 | 超时 | 磁盘"""
)
_REFUSED = re.compile(
    r"(?i)ECONNREFUSED|connection[ _]refused|could not connect to server|is the server running|verweigert"
)
_SERVICE = re.compile(
    r"""(?ix)\b(?:docker|podman)(?:[-\ ]compose)?\b.*\b(?:up|start|run|restart)\b | \b(?:systemctl|service
    |brew\ services)\b.*\bstart
    | \b(?:redis-server|pg_ctl|pg_ctlcluster|mysqld|mongod|minio|localstack|rabbitmq-server|dockerd|colima|kafka)\b
    | \b(?:make|just|task|npm\ run|yarn|pnpm|bin/|\./)\S*\ ?\S*(?:up|start|serve|services?|db|deps|infra|dev)\b
    | \bsupabase\ start | \bminikube\ start | \bkind\ create"""
)
_MISSPELT = re.compile(
    r"""(?ix)command\ not\ found | is\ not\ a\ git\ command | unknown\ (?:option|command|flag
    |argument|subcommand)
    | unrecognized\ (?:arguments?|option|command|subcommand) | no\ such\ (?:option|command|subcommand|task|target)
    | invalid\ (?:option|choice|command) | missing\ script | unexpected\ argument | no\ rule\ to\ make\ target
    | is\ not\ recognized\ as | bad\ substitution | unexpected\ (?:EOF\ while|token\ near) | no\ tests?\ (?:found
    |ran|collected)
    | file\ or\ directory\ not\ found | unterminated\ quoted | usage: | flag\ provided\ but\ not\ defined"""
)
_UNFINISHED = re.compile(
    r"""(?x)\bAssertionError\b | \bassert(?:ion)?\b | \bExpect(?:ed|ation)\b | \bexpected\b | \bReceived\b
    | \bSyntaxError\b | \bIndentationError\b | \bNameError\b | \bAttributeError\b | \bTypeError\b
    | \bNotImplemented(?:Error)?\b
    | \bUnboundLocalError\b | \bReferenceError\b | \bIndexError\b | \bZeroDivisionError\b | is\ not\ (?:a\ function
    |defined)
    | \bnot\ implemented\b | \bundefined(?:\ (?:name|method|variable|local|reference|is)|:) | cannot\ import\ name
    | error\[E\d{4}\] | \bTS\d{4}\b | mismatched\ types | cannot\ find\ (?:name|value|symbol|function|type|symbol)
    | \bleft:\ | \bright:\ | \bpanicked\ at\b | \btodo!\( | should\ (?:be|have|equal|return|contain|render|throw)
    | to\ (?:equal|be)\b
    | \bgot\b | \bwant(?:ed)?\b | ^FAILED\ | \bFAIL(?:ED)?[:\ ] | \b\d+\ (?:tests?\ )?(?:failed|failing|failures?)
    | --- FAIL
    | has\ no\ (?:attribute|member|exported\ member) | No\ module\ named | \bunused\b | \bmissing\ return
    | undeclared | does\ not\ (?:exist\ on|have\ a|implement) | \bNoMethodError\b | \bNullPointerException\b
    | \bnot\ (?:assignable|callable|subscriptable|iterable)\b | \bsyntax\ error\b | \bparse\ error\b
    | \bunexpected\ token\b"""
)
_SETUP = re.compile(
    r"""(?ix)environment\ variable | \benv(?:\ var)?\b | \b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b.{0,30}(?-i:not\ set|missing
    |undefined|required|unset|empty)
    | (?:not\ set|missing|required).{0,30}(?-i:\b[A-Z][A-Z0-9]+_[A-Z0-9_]+\b) | (?-i:KeyError:\ '[A-Z][A-Z0-9_]+')
    | ECONNREFUSED | connection\ refused | no\ such\ table | (?:relation|table|column|database
    |role)\ \S+\ does\ not\ exist
    | migrations? | permission\ denied | \bEACCES\b | \bversion\b | \bengines?\b | unsupported | incompatible
    | not\ compatible
    | database\ is\ locked | deadlock | time(?:d\ )?\ ?out | out\ of\ memory | \bheap\b | \bOOM | certificate
    | \bCORS\b
    | lock-?file | out\ of\ (?:date|sync) | up[-\ ]to[-\ ]date | \bstale\b | generated | codegen | cannot\ find\ module
    | can't\ resolve | cannot\ find\ package | linker | \bld:\ | symbol\ not\ found | \bABI\b | mismatch\b
    | encod(?:e|ing) | \blocale\b | time\ ?zone | UnicodeDecodeError | \bEMFILE\b | too\ many\ open\ files | circular
    | foreign\ key | duplicate\ key | unique\ constraint | checksum | peer\ dep | \bERESOLVE\b | submodule
    | git-lfs | \bLFS\b | daemon
    | event\ loop | not\ installed | no\ such\ file | shared\ (?:library|object) | snapshot
    | not\ found\ in\ (?:path|registry)
    | credentials | unauthori[sz]ed | forbidden | \b40[13]\b | race | port | missing\ (?:file|dependency|config\w*
    |plugin|header)
    | plugin | config(?:uration)? | schema | cache"""
)

_DEEP = re.compile(
    r"""(?ix)circular | partially\ initialized | event\ loop | database\ is\ locked | deadlock | foreign\ key
    | duplicate\ key
    | unique\ constraint | (?:relation|table|column|database|role)\ \S+\ does\ not\ exist | no\ such\ table
    | Unicode\w*Error
    | time\ ?zone | offset-naive | \bEMFILE\b | too\ many\ open\ files | heap\ out\ of\ memory | \bCORS\b | certificate
    | environment\ variable | (?-i:KeyError:\ '[A-Z][A-Z0-9_]+')
    | (?-i:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b).{0,30}(?:not\ set|missing)
    | missing.{0,30}(?-i:\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b) | \blocale\b | not\ thread[-\ ]?safe | another\ thread
    | greenlet
    | pickl | serializ\w+\ access | too\ many\ connections | connection\ pool | stack\ (?:size|depth)\ exceeded
    | different\ loop
    | checksum | hydration | read-?only\ (?:file\ system|database) | permission\ denied | \bEACCES\b"""
)
_SYNTAX = re.compile(
    r"""(?ix)\bSyntaxError\b | \bIndentationError\b | \bsyntax\ error\b | \bparse\ error\b | unterminated
    | invalid\ syntax | \bunclosed\b | \bpars(?:e|ing)\ error | (?:could\ not|cannot|failed\ to|error)\ pars(?:e|ing)
    | \bunknown\ (?:field|key|instruction|attribute|property) | not\ a\ valid\ attribute | \bdid\ you\ mean\b
    | \bunexpected\ (?:token|end\ of|indent|['"`]?[^\w\s'"`]) | expected\ (?:token\ )?[`'"]?(?:[;:)}\]]|end\ of)"""
)
_MISTYPED = re.compile(
    r"""(?ix)\byaml:\ line | mapping\ values\ are\ not\ allowed | \bJSONDecodeError\b | trailing\ comma
    | toml.{0,20}parse
    | already\ defined | declared\ but\ not\ used | duplicate\ (?:key|definition)\ in"""
)
_FLAKY = re.compile(
    r"""(?ix)\bflak(?:y|e)\b | time-?out\ (?:of\ )?\d+\ ?m?s | exceeded\ timeout | timed?\ ?out\ (?:after|waiting|in)\b
    | async\ callback | element\ (?:is\ )?not\ (?:visible|attached|found|interactable|stable) | stale\ element
    | detached\ from
    | intermittent | \bretry\ \#?\d"""
)
_OF_LINTERS = re.compile(
    r"""(?ix)(?:^|/)(?:\.[\w-]*(?:rc|ignore)(?:\.\w+)?|[^/]*(?:eslint|prettier|stylelint|biome|ruff|mypy|pylint
    |flake8|tslint)[^/]*
    |tsconfig[^/]*|pyproject\.toml|setup\.cfg|tox\.ini|package\.json|\.golangci\S*|\.rubocop\S*|\.pre-commit\S*
    |\.editorconfig
    |clippy\.toml|\.clang-\S+|mypy\.ini|pyrightconfig\.json|phpstan\S*|detekt\S*)$"""
)


def looks(program: Words) -> bool:
    """Whether a program only looks, so that its failure is an answer."""
    if program[0] == "git":
        return len(program) > 1 and program[1] in _GIT_READING and "--exit-code" not in program
    return program[0] in _LOOKING or _asks(program)


def is_inline(program: Words) -> bool:
    """Whether a program was written on the command line, to try something."""
    return program[0] in ("-c", "-e") or any(word in ("-c", "-e", "--eval", "--execute") for word in program[1:3])


def is_linter(program: Words) -> bool:
    """Whether a program that the table of checks does not know looks at how files are written."""
    first = next((word for word in program[1:] if not word.startswith("-")), "")
    return "lint" in program[0] or "lint" in first or first in ("validate", "parse", "vet", "fmt", "format")


def _asks(program: Words) -> bool:
    """Whether the first words of a program ask it something: `kubectl logs`, `docker image inspect`, `uv pip show`."""
    words = [word for word in program[1:] if not word.startswith("-")][:2]
    return any(word in _ASKED for word in words) and not any(word in ("run", "exec", "test") for word in words)


def changes_something(program: Words) -> bool:
    """Whether a program may have changed what another one then finds."""
    if program[0] == "git":
        first = next((word for word in program[1:] if not word.startswith("-")), "")
        return first not in _GIT_READING and (first not in _GIT_EVERYDAY or "--unshallow" in program)
    if program[0] in _READING or _asks(program) or program[0] in _PASSING_BY or _ASKING.search(" ".join(program[1:])):
        return False
    if any(word.removeprefix("--") in _ONCE for word in program[1:3]) or program[-1].endswith("/activate"):
        return False
    if program[0] == "sed":
        return any(word.startswith(("-i", "--in-place")) for word in program[1:])
    return not is_formatter(program)


def is_formatter(program: Words) -> bool:
    """Whether a program rewrites code in its shape only."""
    fixes = any(word in ("--fix", "fix", "format", "fmt", "--write") for word in program[1:])
    named = any("format" in word or word in ("fmt", "lint:fix") or word.endswith(":fix") for word in program[1:3])
    return program[0] in _FORMATTERS or fixes or named


_INSTALLERS = words_of("npm pnpm yarn bun bundle poetry uv pipenv pdm pip pip3 composer pod flutter mix go cargo")
_INSTALLS = words_of("install ci i sync get fetch download deps.get pub mod")


def installs_all(program: Words) -> bool:
    """Whether a program installs what the project says, which is everybody's first step."""
    said = [word for word in program[1:] if not word.startswith("-") and not word.endswith((".txt", ".lock"))]
    return program[0] in _INSTALLERS and set(said) <= _INSTALLS and program[0] + str(said) not in ("go[]", "cargo[]")


def is_git(program: Words) -> bool:
    """Whether it is git's own trouble."""
    return program[0] in ("git", "gh", "glab")


def interrupted(text: str) -> bool:
    """Whether a person or a limit ended a command."""
    return _INTERRUPTED.search(text) is not None


def passing(text: str) -> bool:
    """Whether a text tells of a network, a port, a disk or a quota that has a bad day."""
    return _PASSING.search(text) is not None


def refused(text: str) -> bool:
    """Whether nobody listened: passing trouble, unless a service is started for it."""
    return _REFUSED.search(text) is not None


def starts_a_service(command: str) -> bool:
    """Whether a command starts what others connect to."""
    return _SERVICE.search(command) is not None


def misspelt(text: str) -> bool:
    """Whether a program did not understand its own command line."""
    return _MISSPELT.search(text) is not None


def unfinished(text: str) -> bool:
    """Whether a failure is one of those that any unfinished work has."""
    return _UNFINISHED.search(text) is not None


def is_deep(text: str) -> bool:
    """Whether a failure is one that code runs into for a reason which does not stand in the code."""
    return _DEEP.search(text) is not None


def is_syntax(text: str) -> bool:
    """Whether a file could not be read as what it is."""
    return _SYNTAX.search(text) is not None


def is_mistyped(text: str) -> bool:
    """Whether the file that could not be read is one of settings, so that its own text is wrong."""
    return _MISTYPED.search(text) is not None


def is_flaky(text: str) -> bool:
    """Whether a failure is of the sort that goes away by itself."""
    return _FLAKY.search(text) is not None


def of_setup(text: str) -> bool:
    """Whether a failure is about what stands around the code: variables, versions, services, files, order."""
    return _SETUP.search(text) is not None


# --- files -------------------------------------------------------------------------------------

_TESTS = re.compile(
    r"(?i)(?:^|/)(?:tests?|spec|__tests__|e2e|cypress)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?\.\w+$|_test\.\w+$"
)
_AROUND = re.compile(
    r"""(?ix)(?:^|/)(?:conftest\.py|setup\.(?:py|cfg)|makefile|justfile|dockerfile[^/]*|jenkinsfile|procfile
    |gemfile|rakefile
    |vagrantfile|brewfile|cmakelists\.txt|go\.(?:mod|sum|work)|build\.rs|\.[\w.-]+|[^/]*\.config\.\w+
    |[^/]*rc(?:\.[a-z]+)?
    |[^/]*setup\.[jt]s|[^/]*-setup\.\w+|(?:settings|config|env)\.\w+|requirements[^/]*\.txt|(?:vitest|jest|babel
    |webpack)[^/]*)$
    |\.(?:ya?ml|toml|ini|cfg|conf|config|env|lock|sql|properties|gradle|kts|tf|tfvars|hcl|nix|mk|cmake|sh|bash
    |json5?|proto
    |graphql|prisma|xml|plist|service|sum|mod|csproj|sln|props|podspec|gemspec)$
    |(?:^|/)(?:migrations?|migrate)/"""
)
_WORDS = re.compile(r"(?i)\.(?:md|mdx|rst|txt|adoc)$|(?:^|/)(?:changelog|license|readme)[^/]*$")


def is_test(path: str) -> bool:
    """Whether a file holds tests."""
    return _TESTS.search(path) is not None and not path.endswith("conftest.py")


def is_around(path: str) -> bool:
    """Whether a file is about how code is built, run or set up, and not the code itself."""
    return _AROUND.search(path) is not None and not is_prose(path)


def is_of_linters(path: str) -> bool:
    """Whether a file tells linters and type checkers what to do."""
    return _OF_LINTERS.search(path) is not None


def is_prose(path: str) -> bool:
    """Whether a file holds words for people, which no command minds."""
    return _WORDS.search(path) is not None and not re.search(r"(?i)requirements[^/]*\.txt$|cmakelists\.txt$", path)
