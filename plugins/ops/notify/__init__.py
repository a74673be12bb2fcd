"""Notifications: who is told of what goes wrong, by chat, mail or webhook, once, and also across restarts."""
