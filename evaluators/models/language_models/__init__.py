"""Language models that say how likely a text is."""
