"""Methods of `sharding`: strategies of ops at least cost, within a memory."""
