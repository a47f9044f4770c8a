"""A registry of one process's metrics that knows what it promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from secor import __version__


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one metric, which users may rely on."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


class _Renewal(Collector):
    """The first collector of a registry: has no metrics, but those of the others renewed."""

    def __init__(self) -> None:
        self.renew: Callable[[], None] = lambda: None

    def describe(self) -> Iterable[Metric]:
        """Return nothing."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Renew, and return nothing."""
        self.renew()
        return ()


class MetricsRegistry:
    """Makes metrics, remembers their definitions, and gives their text."""

    def __init__(self) -> None:
        # Their "_created" series double the number of series and nobody reads them.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.definitions: list[Definition] = []
        self._renewal = _Renewal()
        self.registry.register(self._renewal)
        ProcessCollector(registry=self.registry)

    def before_reading(self, renew: Callable[[], None]) -> None:
        """Have ``renew`` set what is measured whenever the metrics are read, on any thread."""
        self._renewal.renew = renew

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format, version 0.0.4."""
        return prometheus_client.generate_latest(self.registry)

    def _make_build_info(self) -> None:
        build = self._gauge(
            "secor_build_info", ("version",), "Always 1; the label is the version of Secor."
        )
        build.labels(__version__).set(1)

    def _counter(self, name: str, labels: tuple[str, ...], text: str) -> Counter:
        made = Counter(name, text, labels, registry=self.registry)
        self.definitions.append(Definition(name, "counter", labels, text))
        return made

    def _gauge(self, name: str, labels: tuple[str, ...], text: str) -> Gauge:
        made = Gauge(name, text, labels, registry=self.registry)
        self.definitions.append(Definition(name, "gauge", labels, text))
        return made

    def _histogram(self, name: str, buckets: tuple[float, ...], text: str) -> Histogram:
        made = Histogram(name, text, registry=self.registry, buckets=buckets)
        self.definitions.append(Definition(name, "histogram", (), text))
        return made
