"""The check of a change in CI: evaluate, compare with the base branch, tell the pull request, leave with a code.

:func:`.checking.check_change` is the way in. :mod:`.checkout` says what was checked out, :mod:`.prepare` reads
``[ci]`` of ``leadline.toml``, :mod:`.base_run` finds the base branch's run, :mod:`.change_facts` reads what a run
found, :mod:`.check_outcome` decides, :mod:`.change_summary` puts it into Markdown, :mod:`.job_files` writes what the CI
system reads, and :mod:`.forges` keep one comment on the pull request up to date. ``docs/ci.md`` is the page for users.
"""
