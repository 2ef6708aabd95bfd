"""Adapters: answers that take effect in other programs, a module for each; public as `lowtide.adapters`."""
