"""Shared by every test folder. Lying here, this file also puts `tests/` on the import path (`fakes`)."""
