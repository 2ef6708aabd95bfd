"""File formats: one file each, readers and writers."""
