"""What is true without a solver: graphs, machines, plans, problems, results, the verifier."""
