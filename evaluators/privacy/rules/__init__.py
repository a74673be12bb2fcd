"""Rules that find secrets and personal data in text: tables (TOML), checks, the engine, and decoders run before it."""
