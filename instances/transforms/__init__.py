"""Transformations of instances: blocks, replicas, unrolled steps, durations from a roofline."""
