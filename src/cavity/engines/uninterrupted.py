"""For workers that a command starts: Ctrl-C reaches them too, and is the command's to answer."""

import signal


def dask_setup(worker: object) -> None:
    """Leaves Ctrl-C to the process that fits; Dask calls it in each worker that it starts."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
