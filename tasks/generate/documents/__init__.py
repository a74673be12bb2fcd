"""Documents: finding files, and reading each as one text with marks for pages and sections.

:mod:`.document_files` finds the files and :mod:`.reading` reads them: :mod:`.plain_text` plain text and Markdown,
:mod:`.html_and_pdf` web pages and PDF, in a process of its own (:mod:`.sandbox`). :mod:`.document` is the result.
"""
