"""The proxy: the faults, and the relay between a client and a broker that carries them out."""
