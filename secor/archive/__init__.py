"""What reads and repairs what is stored."""
