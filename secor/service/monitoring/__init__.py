"""Monitoring of a process: metrics, health, access to them, its last run."""
