"""The ground floor: files, processes, locks, logs, time spent, numbers in words, templates, plug-ins."""
