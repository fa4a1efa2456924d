"""The findings, a module a family; docs/findings.md is made of them in this order."""

# Each of these registers its findings.
from lab_utils.audit.findings import (  # isort: skip
    producing,
    consuming,
    replication,
    isolation,
    inconclusive,
)

__all__ = ["consuming", "inconclusive", "isolation", "producing", "replication"]
