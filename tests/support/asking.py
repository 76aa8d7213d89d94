"""Asks the pages' API as a browser that was let in: the real application, in this process."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from ralph.web import server

PORT = 8123
TOKEN = "let-me-in"


class Site:
    """One open window on a project."""

    def __init__(self, root: Path) -> None:
        self.client = TestClient(
            server.build_app(root, port=PORT, token=TOKEN), base_url=f"http://127.0.0.1:{PORT}"
        )
        assert self.client.get("/", params={"token": TOKEN}).status_code == 200

    def get(self, path: str, **params: object) -> Any:
        """What a path answers; it must answer well."""
        answer = self.client.get(path, params={key: _text(value) for key, value in params.items()})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refusal(self, path: str, **params: object) -> tuple[int, str]:
        """The status and the sentence of an answer that is an error."""
        answer = self.client.get(path, params={key: _text(value) for key, value in params.items()})
        error = answer.json()["error"]
        assert sorted(error) == ["hint", "message"]
        return answer.status_code, error["message"]

    def post(self, path: str, **body: object) -> Any:
        """What a path answers to a body."""
        answer = self.posted(path, **body)
        assert answer[0] == 200, answer[1]
        return answer[1]

    def posted(self, path: str, **body: object) -> tuple[int, Any]:
        """The status and the answer to a body."""
        answer = self.client.post(path, json=body, headers={"Origin": f"http://127.0.0.1:{PORT}"})
        return answer.status_code, answer.json()


def _text(value: object) -> str | list[str]:
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def tags(html: str) -> set[str]:
    """The names of all tags in a piece of HTML."""
    import re

    return {name.lower() for name in re.findall(r"<\s*/?\s*([a-zA-Z!][^\s>/]*)", html)}
