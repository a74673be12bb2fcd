"""One comment on a pull request, kept up to date: found again by a hidden marker and its author.

Whatever goes wrong here is a warning: the check's verdict decides the job, not the forge.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from leadline.plugins.ci.checkout import Checkout
from leadline.plugins.ci.forges import github, gitlab
from leadline.plugins.ci.forges.forge import Forge
from leadline.plugins.ci.forges.rest_client import ForgeRefusal, RestClient

TOKEN: Final = "LEADLINE_FORGE_TOKEN"  # noqa: S105 - a variable's name
API: Final = "LEADLINE_FORGE_API"
_TOKENS: Final = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}

Done: TypeAlias = Literal["created", "updated", "unchanged", "refused", "not asked"]


@dataclass(frozen=True, slots=True)
class Posting:
    """Outcome of keeping a comment.

    Attributes:
        done: What was done.
        words: Why not, in one sentence, or "".
    """

    done: Done
    words: str = ""


def marker(title: str) -> str:
    """Return the first line of a comment, which nobody sees, and by which it is found again."""
    return f"<!-- leadline-ci {hashlib.sha256(title.encode('utf-8', 'replace')).hexdigest()[:16]} -->"


def keep_comment(checkout: Checkout, body: str, *, title: str, environment: Mapping[str, str]) -> Posting:
    """Write the comment of a pull request, or bring the one that is there up to date; never raises.

    Args:
        checkout: What was checked out.
        body: The comment's Markdown.
        title: What tells this comment from others of Leadline.
        environment: The job's variables; the token is one of them.
    """
    if checkout.number is None or not checkout.forge:
        return Posting("not asked")
    token = environment.get(TOKEN) or environment.get(_TOKENS[checkout.forge], "")
    if not token:
        return Posting("refused", _fork_or(checkout, f"{TOKEN} is not set"))
    try:
        return Posting(_keep(_forge(checkout, token, environment), f"{marker(title)}\n{body}", marker(title)))
    except ForgeRefusal as refusal:
        if checkout.fork and refusal.status in (401, 403, 404):
            return Posting("refused", _fork_or(checkout, ""))
        return Posting("refused", _fork_or(checkout, str(refusal), fork=False))


def _keep(forge: Forge, body: str, mark: str) -> Done:
    author = forge.author()
    own = next(
        (comment for comment in forge.comments() if comment.author == author and comment.body.startswith(mark)), None
    )
    if own is None:
        forge.create(body)
        return "created"
    if own.body.replace("\r\n", "\n").rstrip() == body.rstrip():
        return "unchanged"
    try:
        forge.update(own, body)
    except ForgeRefusal as refusal:
        if refusal.status != 404:
            raise
        forge.create(body)  # somebody deleted it since
        return "created"
    return "updated"


def _forge(checkout: Checkout, token: str, environment: Mapping[str, str]) -> Forge:
    number = checkout.number or 0
    if not token.isascii() or any(not sign.isprintable() for sign in token):
        raise ForgeRefusal("the token is none: it has a line end or another sign that no token has")
    if checkout.forge == "github":
        api = environment.get(API) or environment.get("GITHUB_API_URL") or github.API
        client = RestClient(api, github.HEADERS | {"Authorization": f"Bearer {token}"})
        return github.GitHub(client, checkout.repository, number)
    api = environment.get(API) or environment.get("CI_API_V4_URL") or gitlab.API
    return gitlab.GitLab(RestClient(api, {"PRIVATE-TOKEN": token}), checkout.repository, number)


def _fork_or(checkout: Checkout, reason: str, *, fork: bool = True) -> str:
    what = "merge request" if checkout.forge == "gitlab" else "pull request"
    if checkout.fork and fork:
        return f"The {what} comes from a fork, whose jobs get no token that may write: it gets no comment."
    return f"The {what} got no comment: {reason}."
