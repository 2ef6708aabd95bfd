"""The errors a user can meet: one root, each says what, where, what was found and expected."""

from __future__ import annotations


class LowtideError(Exception):
    """Root of every error that lowtide raises on purpose; the CLI prints it in one line."""


class InstanceError(LowtideError):
    """Bad input: a graph, plan, buffer set, order or specification that is not what it must be."""


class UsageError(LowtideError):
    """A call that cannot be carried out: an unknown method or option, a limit out of range."""


class BackendUnavailable(LowtideError):
    """A package or solver that the request needs is not installed."""


class VerificationError(LowtideError):
    """A plan or an allocation breaks a rule; the message lists the violations."""
