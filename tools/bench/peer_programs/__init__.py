"""Programs beside which Secor is measured, each a script of its own."""
