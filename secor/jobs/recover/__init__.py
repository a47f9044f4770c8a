"""A recovery: a restore's job (``recovery``), then what else was ``kept`` of the lost cluster.

``groups`` commits offsets, ``access`` makes ACLs and quotas, ``schemas`` registers schemas.
"""
