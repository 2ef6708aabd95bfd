"""Published schedules of task trees on processors that share a memory."""
