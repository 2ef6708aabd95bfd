"""The verbs of the command line, in the order in which they are listed, with one line for people each.

A verb has a module of its name beside this one; the command line imports the one that it needs.
"""

from __future__ import annotations

VERBS = {
    "list": "list problems, methods, instances and machines",
    "show": "show counts, sizes and first bounds of a graph or of buffers; or a machine",
    "convert": "convert a graph to native JSON, DOT or GraphML",
    "solve": "solve a problem",
    "verify": "verify a plan or an allocation, or score an order of the ops of a graph",
    "explain": "say why buffers do not fit: an irreducible set of them without allocation",
    "estimate": "say by formula what training takes on each device, or inference on three tiers",
    "plot": "draw a plan, an allocation or experiments",
    "bench": "carry out an experiment: many runs, each in its own process",
    "library": "list sets of questions that papers can cite; run a method over one",
    "job": "carry out single runs of an experiment",
    "table": "make a table of experiments",
    "report": "write the report of experiments as one HTML file",
    "audit": "look for records that contradict each other",
    "export": "write the model of a method to a file",
    "decode": "read another solver's solution of an exported model",
    "demo": "order, allocate, verify and draw a training iteration of SqueezeNet",
    "compile": "compile the kernels of all methods once, for images and the login nodes of clusters",
    "help": "say what a method does, with its options and its paper",
}
