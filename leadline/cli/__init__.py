"""The command line: a module per command, a folder or module per group of commands."""
