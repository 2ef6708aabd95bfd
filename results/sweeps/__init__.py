"""Experiments: from a TOML file to one record per run, on this machine or a cluster."""
