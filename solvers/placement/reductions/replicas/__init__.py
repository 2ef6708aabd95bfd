"""Several GPUs that do the same on a shared link: one GPU's problem, and plans of all from plans of one."""
