"""Which hours and days are complete, and what is done about them."""
