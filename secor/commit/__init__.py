"""The commit protocol: uploads a sealed batch to store and ledger, exactly once."""
