"""What the outside may see of a process: metrics, health, who may look, a last run."""
