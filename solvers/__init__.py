"""Engines, algorithms, the rooms of problems, and `solve`.

From the command line to the first line of an algorithm: `cli.solve`, `instances.problems`,
`models.problems.peak`, `solvers.solve`, `solvers.registry`, `solvers.peak.methods`, `solvers.peak.auto`,
`solvers.peak.series_parallel.dominant`; the same for other problems. `methods` is a problem's table of
contents, `auto` its strategy.
"""
