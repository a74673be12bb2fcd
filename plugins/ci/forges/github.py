"""Comments on a pull request of GitHub, by its REST API (``issues/comments``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from leadline.plugins.ci.forges.forge import Comment, Forge
from leadline.plugins.ci.forges.rest_client import ForgeRefusal, RestClient

API: Final = "https://api.github.com"
HEADERS: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
BOT: Final = "github-actions[bot]"
"""Account of a workflow's own token, which may not ask for its name."""
_REPOSITORY: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


class GitHub(Forge):
    """A pull request of GitHub.

    Args:
        client: The API with the token.
        repository: ``OWNER/NAME``.
        number: The pull request.

    Raises:
        ForgeRefusal: That is no repository.
    """

    def __init__(self, client: RestClient, repository: str, number: int) -> None:
        if not _REPOSITORY.fullmatch(repository):
            raise ForgeRefusal("the variable of the repository is not OWNER/NAME")
        self._client = client
        self._comments = f"/repos/{repository}/issues/{number}/comments"
        self._one = f"/repos/{repository}/issues/comments"

    def author(self) -> str:
        """Return the name of the token's account. See :class:`.Forge`."""
        try:
            return str(self._client.send("GET", "/user").content["login"])
        except ForgeRefusal as refusal:
            if refusal.status in (403, 404):
                return BOT
            raise
        except (KeyError, TypeError):
            return BOT

    def comments(self) -> Iterator[Comment]:
        """Yield the comments, oldest first. See :class:`.Forge`."""
        for item in self._client.pages(f"{self._comments}?per_page=100"):
            try:
                yield Comment(int(item["id"]), str(item["user"]["login"]), str(item["body"]))
            except (KeyError, TypeError, ValueError):  # an account that was deleted has no name
                continue

    def create(self, body: str) -> None:
        """Write a new comment. See :class:`.Forge`."""
        self._client.send("POST", self._comments, {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        """Give a comment another text. See :class:`.Forge`."""
        self._client.send("PATCH", f"{self._one}/{comment.id}", {"body": body})
