"""The problems: one file each."""
