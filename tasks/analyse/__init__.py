"""Step 4, analyse: scores become aggregates, flips, problems, insights and the decision of the gate."""
