"""The command line: a module per command, a folder per group of commands."""
