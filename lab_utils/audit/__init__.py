"""The audit: a ledger goes in, findings come out. All of it is Spark DataFrame functions."""
