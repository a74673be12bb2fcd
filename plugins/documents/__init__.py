"""Documents in HTML and PDF, for ``leadline data generate``.

:mod:`.sandbox` reads them in a process of its own, with a deadline and bounded memory, by :mod:`.html_and_pdf`.
``docs/generate.md`` is the page for users.
"""
