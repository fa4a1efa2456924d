"""The stage: the brokers, their proxies, and the server that owns them."""
