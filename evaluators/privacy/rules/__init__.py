"""Rules that find secrets and personal data in text, and what decodes text before they look."""
