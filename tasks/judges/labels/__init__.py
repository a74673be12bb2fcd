"""Labels: what people say of answers, kept by what they saw, so that they outlive judges, prompts and runs."""
