"""The process around the loop: start, stop, logs, metrics, health, status page.

Start: servers that do not answer are waited for, mistakes are reported at once (``startup``).
Stop (``daemon``): SIGTERM seals what the plans upload on shutdown, waits for the uploads, leaves
the group, and only then closes ledger and store, because an upload needs both until its last step.

Steady state is quiet.  A log line is an event and ``key=value`` fields; a warning is something
that a person should act on.  Every metric is in ``metrics``, with type, labels and help, and in
``config/METRICS.md``, which a test compares.

Read ``startup``, ``daemon``, ``metrics``.
"""
