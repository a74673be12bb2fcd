"""The parts of commands: the session, options made from forms, progress, output, waiting for a server."""
