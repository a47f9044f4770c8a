"""Import of sink connectors of Kafka Connect: what all of them share, and each sink's own settings.

``connector_file`` reads a connector's settings from a file or from a worker's REST interface.
Each sink's ``convert`` drafts a configuration of them: ``kafka``, ``converters``, ``transforms``
and ``s3`` are shared, ``partitioners`` makes a layout of Confluent's directories.  The Iceberg
sink has its own folder, ``secor/config/iceberg_sink``.
"""
