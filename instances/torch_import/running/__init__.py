"""Plans carried out op by op on tensors that exist: the memory that is held, and the results.

`carry_out` goes through a plan and knows no torch; `tensors` computes; `eager` has torch's own step; `run`
compares what was predicted with what was measured, and is a command:
``python -m lowtide.instances.torch_import.running``.
"""
