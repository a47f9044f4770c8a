"""Parsing the archive again: plan, run, verify, publish, roll back."""
