"""Started by a test: runs a plan on a cluster whose first task dies half way.

python backfill_on_a_cluster.py BACKUP PARTITION PLAN MARKER LOCAL SPARK
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from secor.backfill.model import PlannedBatch, Receipt, read_plan
from secor.config.load import load
from secor.spark import backfill
from secor.wiring.backfill import Setting, open_job, stage


def dying_stage(
    setting: Setting, marker: str, batches: Iterator[PlannedBatch]
) -> Iterator[Receipt]:
    """Stage; the first process of all ends by a kill before it has put its receipt."""
    some = list(batches)
    for receipt in stage(setting, iter(some)):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            yield receipt
        else:
            with open_job(setting) as job:
                job.store.delete(job.places.receipt(some[0]))
            os.kill(os.getpid(), 9)


def main(arguments: list[str]) -> None:
    """Run the plan and print how many tasks there were."""
    backup, partition, plan_file, marker, local, place = arguments
    plan = read_plan(Path(plan_file))
    setting = Setting.of(load(Path(backup), {}), load(Path(partition), {}), plan, Path(local))
    java = f"-Dlog4j2.configurationFile={place}/log4j2.properties"
    java += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner
    settings = {
        "spark.ui.enabled": "false",
        "spark.speculation": "true",
        "spark.local.dir": place,
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }
    with backfill.session("backfill", "local-cluster[2,1,1024]", settings) as spark:
        told: list[tuple[int, int]] = []
        work = partial(dying_stage, setting, marker)
        receipts = backfill.run(spark, work, plan.batches, lambda done, of: told.append((done, of)))
    sys.stdout.write(f"{len(receipts)} batches, progress ended at {told[-1]}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
