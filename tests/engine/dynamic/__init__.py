"""The dynamic worker against the plain and the always speculating server, on the real scheduler."""
