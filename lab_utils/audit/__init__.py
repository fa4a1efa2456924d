"""The audit: a ledger goes in, findings come out. All of it is Spark DataFrame functions."""

# Each of these registers its findings, in the order of docs/findings.md.
from lab_utils.audit import producing, consuming, replication, isolation, inconclusive  # isort: skip

__all__ = ["consuming", "inconclusive", "isolation", "producing", "replication"]
