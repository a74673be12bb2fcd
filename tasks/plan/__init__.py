"""Step 2, plan: which evaluators run, which scores the store contains already, and how the rest is cut into chunks."""
