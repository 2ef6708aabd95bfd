"""Sets of questions that a paper can cite: features, files, scores."""
