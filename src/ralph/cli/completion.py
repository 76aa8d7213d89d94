"""`ralph completion`: the scripts with which shells complete `ralph`, and the answers they get.

A script runs the program that the user typed, with the words up to the cursor in one variable and
the shell's name in another. The answer has one line per completion: type, value and description,
separated by tabs. The type is `plain`, or `file` or `dir` if the shell completes a path itself.
Click finds the completions; the values of options and arguments come from `suggestions.py`.
"""

from __future__ import annotations

import os
from typing import ClassVar

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    shell_complete,
    split_arg_string,
)

from ralph.cli.commands import Command

_WORDS_VARIABLE = "_RALPH_WORDS"
_BASH_SEPARATORS = frozenset(":=")  # bash makes each of them a word

_BASH = """\
_ralph_completion() {
    local program=${1/#\\~\\//$HOME/} words response type value help
    words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
    local IFS=$'\\n'
    response=$(_RALPH_WORDS="${words[*]}" _RALPH_COMPLETE=bash_complete "$program" 2>/dev/null)
    COMPREPLY=()
    while IFS=$'\\t' read -r type value help; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            file) compopt -o default 2>/dev/null ;;
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done <<< "$response"
}

# bash before 4.4 has no nosort
complete -o nosort -F _ralph_completion %(programs)s 2>/dev/null ||
    complete -F _ralph_completion %(programs)s
"""

_ZSH = """\
#compdef %(programs)s

_ralph_completion() {
    local program=${~${(Q)words[1]}} response line
    local -a fields values
    response=$(_RALPH_WORDS="${(F)words[1,CURRENT-1]}"$'\\n'"$PREFIX" \\
        _RALPH_COMPLETE=zsh_complete "$program" 2>/dev/null)
    [[ $PREFIX == --*=* ]] && compset -P '*='
    for line in "${(@f)response}"; do
        fields=("${(@ps:\\t:)line}")
        case $fields[1] in
            plain)
                line=${fields[2]//:/\\\\:}
                [[ -n $fields[3] ]] && line+=":$fields[3]"
                values+=("$line")
                ;;
            file) _path_files ;;
            dir) _path_files -/ ;;
        esac
    done
    (( $#values )) && _describe -V ralph values
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _ralph_completion "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef _ralph_completion %(programs)s
fi
"""

_FISH = """\
function __ralph_completion
    set -l program (commandline -opc)[1]
    set -l program (string replace -r '^~/' "$HOME/" -- $program)
    set -l words (commandline -cp | string collect)
    for line in (env _RALPH_COMPLETE=fish_complete _RALPH_WORDS="$words" $program 2>/dev/null)
        set -l fields (string split \\t -- $line)
        switch $fields[1]
            case plain
                printf '%%s\\t%%s\\n' $fields[2] $fields[3]
            case file
                __fish_complete_path $fields[2]
            case dir
                __fish_complete_directories $fields[2]
        end
    end
end

for program in %(programs)s
    complete --command $program --no-files --keep-order --arguments '(__ralph_completion)'
end
"""


# --- the answers ----------------------------------------------------------------------------------


class _Shell(ShellComplete):
    """A shell that gets one line per completion."""

    incomplete = ""
    """The word at the cursor."""

    def source_vars(self) -> dict[str, str]:  # type: ignore[override]  # our scripts need only this
        """Return the values that the script's template names.

        Where the program was called as `ralph-memory`, `ralph` may be another program.
        """
        if self.prog_name == "ralph":
            return {"programs": "ralph ralph-memory"}
        return {"programs": self.prog_name}

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words after the program's name, and the word at the cursor."""
        text = os.environ[_WORDS_VARIABLE]
        words = self.split_words(text)
        begins_word = text[-1:].isspace() and not words[-1][-1:].isspace()
        if not begins_word:
            self.incomplete = words.pop()
        return words[1:], self.incomplete

    def split_words(self, text: str) -> list[str]:
        """Split the text up to the cursor as the shell does."""
        return split_arg_string(text)

    def format_completion(self, item: CompletionItem) -> str:
        """Return the line for one completion."""
        return f"{item.type}\t{self.format_value(item)}\t{item.help or ''}"

    def format_value(self, item: CompletionItem) -> str:
        """Return what the shell inserts in place of the word at the cursor."""
        return str(item.value)


class _Bash(_Shell):
    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def split_words(self, text: str) -> list[str]:
        """Join the words that bash separates at a colon or an equals sign."""
        words: list[str] = []
        is_joined = False
        for word in super().split_words(text):
            is_separator = word in _BASH_SEPARATORS
            if words and (is_separator or is_joined):
                words[-1] += word
            else:
                words.append(word)
            is_joined = is_separator
        return words

    def format_value(self, item: CompletionItem) -> str:
        """Leave out what bash keeps: everything up to the last colon of the word."""
        kept = self.incomplete.rpartition("=")[2].rpartition(":")
        return str(item.value).removeprefix(kept[0] + kept[1])


class _Zsh(_Shell):
    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH


class _Fish(_Shell):
    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH

    def format_value(self, item: CompletionItem) -> str:
        """Put the option in front of its value, because fish replaces the whole word."""
        option, equals, _ = self.incomplete.partition("=")
        if equals and option.startswith("-") and item.type == "plain":
            return f"{option}={item.value}"
        return str(item.value)


_SHELLS: dict[str, type[_Shell]] = {shell.name: shell for shell in (_Bash, _Zsh, _Fish)}


def answer(cli: click.Command, program: str, instruction: str) -> int:
    """Print the completions that a script asked for, or nothing if anything goes wrong.

    The instruction names the shell, for example `bash_complete`.
    """
    for shell in _SHELLS.values():
        add_completion_class(shell)
    try:
        return shell_complete(cli, {}, program, "", instruction)
    except (Exception, SystemExit):  # noqa: BLE001  (a message would disturb the command line)
        return 1


# --- the command ----------------------------------------------------------------------------------


@click.command(
    name="completion",
    cls=Command,
    examples=[
        "ralph completion bash",
        "ralph completion fish > ~/.config/fish/completions/ralph.fish",
    ],
)
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a completion script for your shell.

    It completes commands, options and values such as ids, sessions, tasks and settings. Load it
    when the shell starts:

    \b
      bash  echo 'eval "$(ralph completion bash)"' >> ~/.bashrc
      zsh   echo 'eval "$(ralph completion zsh)"' >> ~/.zshrc
      fish  ralph completion fish > ~/.config/fish/completions/ralph.fish
    """
    root = ctx.find_root()
    program = root.info_name or "ralph"
    script = _SHELLS[shell](root.command, {}, program, "")
    click.echo(script.source(), nl=False)
