"""The check of a change in CI: evaluate, compare with the base branch, tell the pull request, leave with a code.

:func:`.checking.check_change` is the way in, and writes what the CI system reads. :mod:`.config` reads ``[ci]`` of
``leadline.toml``, :mod:`.checkout` says what was checked out and finds the base branch's run, :mod:`.change_facts`
reads what a run found and decides, :mod:`.change_summary` puts it into Markdown, and :mod:`.forges` keeps one
comment on the pull request up to date. ``docs/ci.md`` is the page for users.
"""
