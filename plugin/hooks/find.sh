# Finds Ralph for the launchers: sets `python` and `runner`, both empty when there is none.
#
# First what `ralph install` noted (the interpreter, then run.py, one a line). If an upgrade moved run.py
# within the same environment, it is looked for there; if the environment is gone, in the places where
# uv and pipx keep their tools. Only the shell's own words: starting one program would cost more than all of this.

python='' runner=''
state=${XDG_STATE_HOME:-}
case $state in /*) ;; *) state=${HOME:-}/.local/state ;; esac
share=${XDG_DATA_HOME:-}
case $share in /*) ;; *) share=${HOME:-}/.local/share ;; esac

if [ -r "$state/ralph/interpreter" ]; then
    { IFS= read -r python; IFS= read -r runner; } <"$state/ralph/interpreter"
fi

if ! { [ -f "$python" ] && [ -x "$python" ] && [ -f "$runner" ]; }; then
    noted=${python%/bin/*}
    python='' runner=''
    for place in "$noted" "${UV_TOOL_DIR:-$share/uv/tools}/ralph-memory" \
        "${PIPX_HOME:-$share/pipx}/venvs/ralph-memory" "${HOME:-}/.local/pipx/venvs/ralph-memory"; do
        for file in "$place"/lib/python3*/site-packages/ralph/hooks/run.py; do
            if [ -f "$file" ] && [ -f "$place/bin/python" ] && [ -x "$place/bin/python" ]; then
                python=$place/bin/python runner=$file
                break 2
            fi
        done
    done
fi
