"""Seeds that once found something; they are run before any others.

What a seed stands for changes when the storm draws differently; that is no loss, because
each is also an ordinary schedule.
"""

CORPUS: dict[int, str] = {}
