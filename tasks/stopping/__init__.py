"""Stop when decided: judging in waves, and looking after each whether the rest could change the outcome."""
