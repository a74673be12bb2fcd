"""Starting flows from outside: events, webhooks and alerts."""
