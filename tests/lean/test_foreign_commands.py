"""Which commands read something foreign, and which belong to the work on a project."""

from pathlib import Path

import pytest

from ralph.lean import foreign_commands, taint
from ralph.lean.taint import Repository

FOREIGN = {
    "a page": ("curl -s https://example.com/guide | head", "network"),
    "a host that only begins like this machine": (
        "curl -s http://localhost.example.com/notes",
        "network",
    ),
    "a page through a local proxy": ("curl -s -x 127.0.0.1:3128 example.com", "network"),
    "a download": ("wget -qO- https://example.com/x.md", "network"),
    "an issue": ("gh issue view 12 --comments", "network"),
    "a pull request of another repository": ("gh -R a/b pr view 3", "network"),
    "the GitHub API": ("gh api repos/a/b/issues/1", "network"),
    "a package's description": ("npm view left-pad readme", "network"),
    "a package's archive": ("pip download leftpad", "network"),
    "a clone": ("git clone https://example.com/a.git && ls a", "network"),
    "a file of a remote": ("git show upstream/main:README.md", "network"),
    "what was fetched last": ("git -C sub show FETCH_HEAD", "network"),
    "behind a pipe": ("cat urls.txt | xargs -n 1 curl", "network"),
    "in a shell's script": ("bash -lc 'cd app && curl https://example.com'", "network"),
    "after variables": ("HTTPS_PROXY=x TOKEN=y curl https://example.com", "network"),
    "behind env and timeout": ("env A=1 timeout 20 wget example.com", "network"),
    "as another user": ("sudo -u bob curl example.com", "network"),
    "in a substitution": ('echo "$(curl -s example.com)"', "network"),
    "in backticks": ("echo `curl -s example.com`", "network"),
    "in a process substitution": ("diff <(curl -s example.com) a.txt", "network"),
    "in a heredoc for a shell": ("bash <<'EOF'\ncurl example.com\nEOF", "network"),
    "in a loop": ("for i in 1 2; do curl example.com/$i; done", "network"),
    "in inline code": (
        "python3 -c \"import requests; print(requests.get('https://example.com').text)\"",
        "network",
    ),
    "in a heredoc of code": (
        "python - <<EOF\nimport urllib.request as u\nu.urlopen('https://example.com')\nEOF",
        "network",
    ),
    "a dependency's README": ("cat node_modules/left-pad/README.md", "dependency"),
    "a search in dependencies": ("grep -rn token .venv/lib", "dependency"),
    "inside a dependency": ("cd vendor/lib && head README", "dependency"),
    "a file of the machine": ("cat /etc/passwd", "outside"),
    "a file above the project": ("head ../secret.txt", "outside"),
    "by a redirection": ("wc -l < /etc/passwd", "outside"),
}
LOCAL = {
    "tests": "pytest -q 2>&1 | tail -20",
    "a build": "npm ci && npm run build",
    "an installation": "pip install -r requirements.txt",
    "the project's own server": "curl -s http://localhost:8000/health",
    "its own port": 'curl 127.0.0.1:3000/api -d \'{"url": "https://example.com"}\'',
    "a file of the project": "cat src/app.py README.md",
    "an absolute path in the project": "cat {root}/src/app.py",
    "a search for a path": "grep -rn /etc/passwd src",
    "a pattern that looks like a path": "sed -n '/start/,/end/p' src/app.py",
    "a message": "git commit -m 'Replace curl by https://example.com'",
    "history": "git log --oneline origin/main..HEAD",
    "a revision of the project": "git show HEAD~1:src/app.py",
    "a page in a heredoc": "cat > docs.md <<EOF\ncurl https://example.com\nEOF\nmake docs",
    "a comment": "make # then curl https://example.com",
    "a name in quotes": "echo 'use curl https://example.com'",
    "devices": "make > /dev/null < /dev/null",
    "ignored dependencies": "grep node_modules .gitignore",
    "inline code": "python -c 'import requests; print(requests.__version__)'",
    "a machine of the user": "ssh staging 'systemctl status app'",
    "the log of a build": "gh run view 12 --log-failed | tail",
    "nothing": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("x\n", encoding="utf-8")
    return Repository(str(root), str(root))


def judge(command: str, repository: Repository) -> str:
    """Judge a command as a hook does, which first asks whether a judge is needed."""
    if not taint.may_be_foreign(command, repository):
        return ""
    return foreign_commands.taint_of_command(command, repository)


@pytest.mark.parametrize(("command", "expected"), FOREIGN.values(), ids=FOREIGN)
def test_a_command_that_reads_something_foreign_taints(
    repository: Repository, command: str, expected: str
) -> None:
    assert judge(command, repository) == expected


@pytest.mark.parametrize("command", LOCAL.values(), ids=LOCAL)
def test_a_command_of_the_project_does_not_taint(repository: Repository, command: str) -> None:
    assert judge(command.replace("{root}", repository.folder), repository) == ""


def test_every_program_of_the_tables_is_judged() -> None:
    tables = {*taint.NETWORK_PROGRAMS, *foreign_commands.NETWORK_SUBCOMMANDS}
    assert tables == taint.COMMAND_WORDS


TOOLS = {
    "a page": ("claude", "WebFetch", "web"),
    "a web search": ("claude", "WebSearch", "web"),
    "Codex's web search": ("codex", "web_search", "web"),
    "Gemini's web search": ("gemini", "google_web_search", "web"),
    "a server": ("claude", "mcp__github__get_issue", "mcp"),
    "a plugin's server": ("claude", "mcp__plugin_docs_docs__read", "mcp"),
    "a server of Gemini CLI": ("gemini", "mcp_github_get_issue", "mcp"),
    "a server of OpenCode": ("opencode", "github_get_issue", "mcp"),
    "a server of Copilot CLI": ("copilot", "github-mcp-server-get_issue", "mcp"),
    "a resource of a server": ("claude", "ReadMcpResourceTool", "mcp"),
    "a server that is named like Ralph": ("claude", "mcp__ralphie__search", "mcp"),
    "Ralph": ("claude", "mcp__ralph__search", ""),
    "Ralph's plugin": ("claude", "mcp__plugin_ralph_ralph__search", ""),
    "Ralph in Gemini CLI": ("gemini", "mcp_ralph_search", ""),
    "Ralph in OpenCode": ("opencode", "ralph_search", ""),
    "OpenCode's own tool": ("opencode", "apply_patch", ""),
    "an edit": ("claude", "Edit", ""),
}


@pytest.mark.parametrize(("host", "tool", "expected"), TOOLS.values(), ids=TOOLS)
def test_a_tool_taints_if_it_returns_what_others_wrote(host: str, tool: str, expected: str) -> None:
    assert taint.taint_of_tool(host, tool) == expected
