"""The pages, a module for each subject; each has a function ``routes``."""
