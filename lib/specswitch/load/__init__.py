"""Prompts, one streamed request, closed and open loops: what a server is measured with. No sglang, no torch."""
