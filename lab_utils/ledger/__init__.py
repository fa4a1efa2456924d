"""The ledger: what happened in a run, as every witness saw it, one JSON line for each event."""
