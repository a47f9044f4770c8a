"""The commands ``secor offsets``: of topic partitions, of groups, of tables."""
