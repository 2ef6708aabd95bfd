"""Methods of `peak`: the order with the least peak memory."""
