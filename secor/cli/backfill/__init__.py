"""The command ``secor backfill``: its plan, its run, and what publishes it."""
