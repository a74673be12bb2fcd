"""``leadline init``: the first look at a file, and the settings that suit it."""
