"""The bases of judge evaluators: prompts, verdicts, juries. What makes the calls is ``judge_client``."""
