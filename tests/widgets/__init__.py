"""The live notebook's parts, without a browser."""
