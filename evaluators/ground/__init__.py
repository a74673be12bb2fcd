"""The ground floor: errors and their codes, secrets, the settings file, paths, digests of code."""
