"""The composition root: from a configuration to connected parts.  Adapters are made here alone.

In: a configuration that is valid, and the environment.  Out: a daemon that is ready to run
(``service``), a table group (``table_group``), a restore's job (``restore``), or single clients for
commands (``clients``).  What is planned or decided belongs to ``jobs``, ``tables``,
``restore`` and ``verify``.

What was opened is closed in reverse order, by the ``with`` that opened it.

Failures: ``ConfigurationError`` and ``AccessDenied`` end a start; servers that do not answer are
waited for (``first_contact``, ``service.startup``).
"""
