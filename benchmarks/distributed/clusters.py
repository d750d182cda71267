"""Dask clusters of this computer, whose workers have one thread each."""

import contextlib
from collections.abc import Iterator

import distributed

from cavity.engines import Dask


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[distributed.Client]:
    """A client of a cluster of worker processes, with folders of their own."""
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=workers, **options) as local,
        distributed.Client(local) as client,
    ):
        client.wait_for_workers(workers, timeout=120)
        yield client


def grown(client: distributed.Client, workers: int) -> Dask:
    """An engine on the cluster, once it has so many workers."""
    assert client.cluster is not None
    client.cluster.scale(workers)
    client.wait_for_workers(workers, timeout=120)
    return Dask(client)
