"""Log lines for people, or as JSON for programs that collect them."""
