"""One file per problem and paradigm: `build`, `decode`, `bound`; the docstring is the mathematics."""
