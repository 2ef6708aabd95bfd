"""Methods of `minio`: trees whose outputs pass through a memory and a storage."""
