"""The audit: a ledger goes in, findings come out. All of it is Spark DataFrame functions."""

from lab_utils.audit import findings

__all__ = ["findings"]
