# Finds Ralph for the launchers: sets `python` and `runner`, both empty when there is none.
#
# First what `ralph install` noted (the interpreter, then run.py, one a line). If an upgrade moved run.py within the
# same environment, it is looked for there; if the environment is gone, where uv and pipx keep their tools, then beside
# a `ralph` on the PATH. Only the shell's own words: starting one program would cost more than all of this.

python='' runner=''

# Succeeds for an absolute path. A relative one would lead into the project, which may be somebody else's.
is_absolute() {
    case $1 in /*) return 0 ;; esac
    [ "${OS:-}" = Windows_NT ] || return 1
    case $1 in [A-Za-z]:[/\\]*) ;; *) return 1 ;; esac
}

state=${XDG_STATE_HOME:-}
if [ "${OS:-}" = Windows_NT ]; then  # Git Bash; Windows' paths are good enough for it
    is_absolute "$state" || state=${LOCALAPPDATA:-}
    uv=${APPDATA:-}/uv/tools pipx=${LOCALAPPDATA:-}/pipx/pipx
else
    is_absolute "$state" || state=${HOME:-}/.local/state
    share=${XDG_DATA_HOME:-}
    is_absolute "$share" || share=${HOME:-}/.local/share
    uv=$share/uv/tools pipx=$share/pipx
fi

# Sets both to what the environment in folder $1 has; fails without Ralph there.
look_in() {
    is_absolute "$1" || { python='' runner=''; return 1; }
    python=$1/Scripts/python.exe
    runner=$1/Lib/site-packages/ralph/hooks/run.py
    [ -f "$runner" ] && [ -f "$python" ] && return 0
    for runner in "$1"/lib/python3*/site-packages/ralph/hooks/run.py; do
        python=$1/bin/python
        [ -f "$runner" ] && [ -f "$python" ] && [ -x "$python" ] && return 0
    done
    python='' runner=''
    return 1
}

# Looks at every `ralph` on the PATH, since another tool has that name, too: its first line names its interpreter, or
# the second one, when that path is too long for a first line.
look_on_path() {
    IFS=:
    set -f
    set -- ${PATH:-}
    set +f
    unset IFS
    for folder; do
        for name in ralph-memory ralph; do
            case $folder in /*) [ -r "$folder/$name" ] && [ -f "$folder/$name" ] || continue ;; *) continue ;; esac
            { IFS= read -r line; IFS= read -r second; } <"$folder/$name"
            line=${line#'#!'}
            if [ "$line" = /bin/sh ]; then
                line=${second#"'''exec' "}
                line=${line%' "$0" "$@"'}
                line=${line#[\"\']}
            fi
            look_in "${line%/bin/*}" && return 0
        done
    done
    return 1
}

if is_absolute "$state" && [ -r "$state/ralph/interpreter" ]; then
    { IFS= read -r python; IFS= read -r runner; } <"$state/ralph/interpreter"
fi

if ! { [ -f "$python" ] && [ -x "$python" ] && [ -f "$runner" ]; }; then
    look_in "${python%/bin/*}" || look_in "${UV_TOOL_DIR:-$uv}/ralph-memory" ||
        look_in "${PIPX_HOME:-$pipx}/venvs/ralph-memory" ||
        look_in "${HOME:-}/.local/pipx/venvs/ralph-memory" ||
        look_in "${USERPROFILE:-}/pipx/venvs/ralph-memory" || look_on_path || :
fi
