"""Notes on a merge request of GitLab, by its REST API (version 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from leadline.plugins.ci.forges.forge import Comment, Forge
from leadline.plugins.ci.forges.rest_client import ForgeRefusal, RestClient

API: Final = "https://gitlab.com/api/v4"


class GitLab(Forge):
    """A merge request of GitLab.

    Args:
        client: The API with the token.
        project: The project's number or path.
        number: The merge request's number within the project.
    """

    def __init__(self, client: RestClient, project: str, number: int) -> None:
        self._client = client
        self._notes = f"/projects/{quote(project, safe='')}/merge_requests/{number}/notes"

    def author(self) -> str:
        """Return the name of the token's account. See :class:`.Forge`."""
        try:
            return str(self._client.send("GET", "/user").content["username"])
        except (KeyError, TypeError):
            raise ForgeRefusal("it does not say whose token that is") from None

    def comments(self) -> Iterator[Comment]:
        """Yield the notes, oldest first. See :class:`.Forge`."""
        for item in self._client.pages(f"{self._notes}?per_page=100&order_by=created_at&sort=asc"):
            try:
                yield Comment(int(item["id"]), str(item["author"]["username"]), str(item["body"]))
            except (KeyError, TypeError, ValueError):
                continue

    def create(self, body: str) -> None:
        """Write a new note. See :class:`.Forge`."""
        self._client.send("POST", self._notes, {"body": body})

    def update(self, comment: Comment, body: str) -> None:
        """Give a note another text. See :class:`.Forge`."""
        self._client.send("PUT", f"{self._notes}/{comment.id}", {"body": body})
