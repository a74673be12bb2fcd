"""Documents: finding files, and reading each as one text with marks for pages and sections."""
