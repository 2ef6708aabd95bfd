"""Methods of `minio`: graphs whose values pass through a memory and a storage."""
