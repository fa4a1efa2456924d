"""The audit: a ledger goes in, findings come out. All of it is Spark DataFrame functions."""

# Each of these registers its findings.
from lab_utils.audit import consuming, failover, findings, isolation

__all__ = ["consuming", "failover", "findings", "isolation"]
