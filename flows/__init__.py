"""The jobs, a module or folder each, of which the Prefect flow, the command and the call from Python are made."""
