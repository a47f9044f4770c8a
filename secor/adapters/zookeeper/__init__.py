"""The default ledger: ZooKeeper, through kazoo."""

from secor.adapters.zookeeper.ledger import ZooKeeperLease, ZooKeeperLedger

__all__ = ["ZooKeeperLease", "ZooKeeperLedger"]
