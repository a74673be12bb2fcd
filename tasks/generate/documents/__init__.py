"""Documents: finding files, and reading each as one text with marks for pages and sections.

:mod:`.files` finds the files and :mod:`.reading` reads them: :mod:`.plain_text` plain text and Markdown,
:mod:`.html_text` and :mod:`.pdf` in a process of their own (:mod:`.sandbox`). :mod:`.document` is the result.
"""
