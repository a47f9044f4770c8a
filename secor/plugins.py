"""The interface for users' plug-ins: these names stay, whatever moves behind them.

``docs/parsing.md`` has an example of each kind.
"""

from secor.core.naming import escape_value
from secor.core.variant_json import is_mixed
from secor.core.variant_json import loads as load_mixed
from secor.parsing.fields import Texts, field_at, texts
from secor.parsing.plugins import Message, MessagePlugin, Placed
from secor.parsing.rows import Decoded, Transform

__all__ = [
    "Decoded",
    "Message",
    "MessagePlugin",
    "Placed",
    "Texts",
    "Transform",
    "escape_value",
    "field_at",
    "is_mixed",
    "load_mixed",
    "texts",
]
