"""Who a client is, from Java's ``sasl.jaas.config``."""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft

_JAAS = re.compile(r"""(?P<key>\w+)\s*=\s*(?:"(?P<quoted>[^"]*)"|(?P<plain>[^\s;"]+))""")


def copy_jaas(draft: Draft, name: str) -> None:
    """Set who we are from Java's ``sasl.jaas.config``; the password is the environment's."""
    text = draft.value(name)
    if not text:
        return
    options = {it["key"]: it["quoted"] or it["plain"] or "" for it in _JAAS.finditer(text)}
    if "username" in options:
        draft.set("kafka.sasl_plain_username", options["username"], name)
        draft.secret("kafka.sasl_plain_password", name, "the password in")
    elif "Krb5LoginModule" in text:
        draft.unsupported("the ticket comes from the machine: KRB5_CLIENT_KTNAME, or kinit", name)
        draft.todo("give the daemon a Kerberos ticket (KRB5_CLIENT_KTNAME names its keytab)")
    else:
        why = "it names no username: set kafka.sasl_plain_username and its password"
        draft.unsupported(why, name)
