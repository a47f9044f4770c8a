"""Seeds that are run whatever the number of schedules: each once found something.

What a seed stands for changes when the storm draws differently; that is no loss, because
each is also an ordinary schedule.  Find a new one with ``scripts/simulate --minutes``.
"""

CORPUS = {
    4: "a lost answer of a put",
    17: "an object to adopt under another first offset",
    19: "two configurations, one superseded twice",
    270: "a leftover deleted after its successor had committed it",
    336: "a standing intent that was not written again",
    437: "a number in a column that has become text",
    440: "asleep between the write that renewed a proof and its answer",
    301703: "a lock that could not be given back while its holder was cut off",
    910405: "a message with a conflict and a new field, in a schema that compaction has shaped",
    3004: "members that wait for releases longer than the group for them",
}
