"""The page of a run for people: ``report.html``, its data, charts and pictures."""
