"""The composition root: from a configuration to connected parts; the only importer of adapters."""

from secor.wiring.clients import open_ledger_for_operator, open_reader, open_store
from secor.wiring.plans import plan_for

__all__ = ["open_ledger_for_operator", "open_reader", "open_store", "plan_for"]
