"""Everything a server offers, in plain steps, in speculative steps and across switches, against the plain server."""
