"""Let people label answers, and correct a judge by what they say."""
