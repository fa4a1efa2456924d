"""The stage: what the experiment runs on. Kafka, the proxy that breaks it, and their server."""
