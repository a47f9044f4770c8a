"""The default ledger: ZooKeeper, through kazoo."""

from secor.adapters.zookeeper.ledger import ZooKeeperLease, ZooKeeperLedger
from secor.adapters.zookeeper.options import Options
from secor.adapters.zookeeper.relocation import ZooKeeperMovableLedger

__all__ = ["Options", "ZooKeeperLease", "ZooKeeperLedger", "ZooKeeperMovableLedger"]
