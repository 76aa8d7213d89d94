# Hands one event to Ralph: ralph-hook.ps1 HOST EVENT, the event's JSON on standard input.
#
# Claude Code runs hooks with PowerShell on Windows without Git Bash. This does what `ralph-hook` and `find.sh` do, in
# PowerShell: it looks at what `ralph install` noted (the interpreter, then run.py, one a line), then where uv and pipx
# keep their tools. It never fails.

$ErrorActionPreference = 'SilentlyContinue'

function Test-Ralph($python, $runner) {
    if (-not $python -or -not $runner) { return $false }
    (Test-Path -LiteralPath $python -PathType Leaf) -and (Test-Path -LiteralPath $runner -PathType Leaf)
}

# A relative path would lead into the project, which may be somebody else's. If a variable is not set, a path begins with
# a backslash and leads to the top of the drive, where every user can create folders.
function Test-Absolute($path) {
    $path -match '^([A-Za-z]:[\\/]|[\\/]{2})'
}

$state = $env:XDG_STATE_HOME
if (-not (Test-Absolute $state)) { $state = $env:LOCALAPPDATA }
$note = "$state\ralph\interpreter"
if ((Test-Absolute $note) -and (Test-Path -LiteralPath $note -PathType Leaf)) {
    $python, $runner = [IO.File]::ReadAllLines($note)
}
if (-not (Test-Ralph $python $runner)) {
    $folders = @(
        "$env:UV_TOOL_DIR\ralph-memory"
        "$env:APPDATA\uv\tools\ralph-memory"
        "$env:PIPX_HOME\venvs\ralph-memory"
        "$env:USERPROFILE\pipx\venvs\ralph-memory"
        "$env:LOCALAPPDATA\pipx\pipx\venvs\ralph-memory"
    )
    foreach ($folder in $folders) {
        if (-not (Test-Absolute $folder)) { continue }
        $python = "$folder\Scripts\python.exe"
        $runner = "$folder\Lib\site-packages\ralph\hooks\run.py"
        if (Test-Ralph $python $runner) { break }
    }
}

if (Test-Ralph $python $runner) {
    & $python -I -S $runner $args[0] $args[1] --plugin
} elseif ($args[1] -eq 'SessionStart') {
    '{"systemMessage": "Ralph is not installed, so nothing is remembered. Its README says how to install it (package ralph-memory)."}'
}
exit 0
