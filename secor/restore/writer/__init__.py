"""Transactions on the target cluster."""
