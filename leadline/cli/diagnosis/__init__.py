"""``leadline doctor``: what is missing or broken on this machine, part by part."""
