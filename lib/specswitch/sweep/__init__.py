"""Sweeps: parameters become a plan, a plan becomes points, every point is measured once and stored."""
