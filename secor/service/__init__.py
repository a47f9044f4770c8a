"""The process around the loop: start, stop, logs, metrics, health, status page."""
