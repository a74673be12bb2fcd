"""What starts flows from outside: events, webhooks and alerts."""
