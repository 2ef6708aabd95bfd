"""Published memory systems as policies of the problem `placement`, one file each.

A policy turns a problem (`lowtide.solvers.placement.simulator.problem`) into decisions on its absences,
and `follow.follow` has the simulator carry them out: whatever a policy assumes, its time is that of an
exact plan. To add one, write a file with a function ``solve_...(problem, context)`` that calls it, and a row
in `lowtide.solvers.placement.policies.methods`. `loads` holds what several policies need: bytes on the device
op by op, and how early a tensor may return.
"""
