"""Make datasets: of documents, of reworded cases, and of RGB."""
