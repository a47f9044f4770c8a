"""The commit protocol: a sealed batch into store and ledger, exactly once."""
