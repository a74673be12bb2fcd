"""Forges: where pull requests are, and how one comment on each is kept up to date.

:func:`.sticky_comment.keep_comment` is the way in; :mod:`.forge` says what a forge can do, :mod:`.github` and
:mod:`.gitlab` do it by :mod:`.rest_client`.
"""
