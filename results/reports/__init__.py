"""One self-contained HTML page of experiments."""
