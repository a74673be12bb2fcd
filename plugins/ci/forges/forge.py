"""A forge: the few things that keeping one comment up to date takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment on a pull request.

    Attributes:
        id: Its number.
        author: Name of the account that wrote it.
        body: Its Markdown.
    """

    id: int
    author: str
    body: str


class Forge(ABC):
    """The comments of one pull request. Methods raise :class:`.rest_client.ForgeRefusal` where the forge refuses."""

    @abstractmethod
    def author(self) -> str:
        """Return the name of the account that the token belongs to."""

    @abstractmethod
    def comments(self) -> Iterator[Comment]:
        """Yield the comments, oldest first."""

    @abstractmethod
    def create(self, body: str) -> None:
        """Write a new comment."""

    @abstractmethod
    def update(self, comment: Comment, body: str) -> None:
        """Give a comment another text.

        Args:
            body: Its Markdown.
        """
