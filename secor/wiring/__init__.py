"""The composition root: from a configuration to connected parts; the only importer of adapters."""
