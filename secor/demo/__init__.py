"""The demonstration: real flights through real servers, with a crash in the middle."""
