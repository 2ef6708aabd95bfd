"""Formulations of `minio`: the fewest bytes written to storage."""
