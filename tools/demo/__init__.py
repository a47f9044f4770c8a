"""The demonstration: real flights through real servers, a crash in the middle, a backfill."""
