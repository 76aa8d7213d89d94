# Sets `advice`: how to install Ralph, from the clone that this plugin belongs to if it can be found.
#
# The plugin is in the clone itself, or it is a copy that Claude Code made and noted where the marketplace is.
# Expects `self`, the path of the script that asks. Only the shell's own words, as in find.sh.

# Fails unless folder $1 is a clone whose path can be quoted.
is_clone() {
    case $1 in '' | *[\'\"\\]* | *[[:cntrl:]]*) return 1 ;; esac
    [ -f "$1/pyproject.toml" ] && [ -f "$1/src/ralph/hooks/run.py" ]
}

# Sets `clone` to the marketplace's folder, or to nothing.
find_marketplace() {
    clone='' found=''
    notes=${CLAUDE_CONFIG_DIR:-${HOME:-}/.claude}/plugins/known_marketplaces.json
    [ -r "$notes" ] || return 0
    while IFS= read -r line; do
        case $line in
        *'"ralph-memory": {'*) found=yes ;;
        *'"installLocation": "'*)
            if [ -n "$found" ]; then
                clone=${line#*'"installLocation": "'}
                clone=${clone%%'"'*}
                return 0
            fi
            ;;
        esac
    done <"$notes"
}

clone=$(cd "${self%/*}/../.." 2>/dev/null && pwd) || clone=''
is_clone "$clone" || find_marketplace
installer='uv tool'
command -v uv >/dev/null 2>&1 || ! command -v pipx >/dev/null 2>&1 || installer=pipx
if is_clone "$clone"; then
    advice="To install it, run: $installer install '$clone[all]'"
else
    advice='Its README says how to install it (package ralph-memory).'
fi
