"""From Java Secor to this one: its configuration read and translated."""
