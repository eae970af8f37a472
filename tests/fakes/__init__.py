"""Stand-ins that several test folders share: a scripted SGLang-like HTTP server."""
