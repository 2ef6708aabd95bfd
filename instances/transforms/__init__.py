"""What makes one instance from another: blocks, replicas, unrolled steps, times from a roofline."""
