"""Tests of starting, checking, controlling and ending servers; nearly all with fake children."""
