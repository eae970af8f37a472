"""Prompts, one streamed request, the closed loop: what a server is measured with. No sglang, no torch."""
