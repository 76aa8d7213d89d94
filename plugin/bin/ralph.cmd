@echo off
rem The command `ralph` for MCP clients and shells on Windows: the same Ralph that the hooks start.
rem It looks at what `ralph install` noted, then where uv and pipx keep their tools.
setlocal
chcp 65001 >nul
set "state=%XDG_STATE_HOME%"
if not defined state set "state=%LOCALAPPDATA%"
set "python="
if exist "%state%\ralph\interpreter" (
    for /f "usebackq delims=" %%i in ("%state%\ralph\interpreter") do if not defined python set "python=%%i"
)
if defined python if exist "%python%" goto start
for %%i in (
    "%UV_TOOL_DIR%\ralph-memory"
    "%APPDATA%\uv\tools\ralph-memory"
    "%PIPX_HOME%\venvs\ralph-memory"
    "%USERPROFILE%\pipx\venvs\ralph-memory"
    "%LOCALAPPDATA%\pipx\pipx\venvs\ralph-memory"
) do (
    set "python=%%~i\Scripts\python.exe"
    if exist "%%~i\Scripts\python.exe" goto start
)
echo Ralph is not installed. Its README says how to install it (package ralph-memory).>&2
exit /b 1

:start
"%python%" -I -m ralph %*
