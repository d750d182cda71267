"""Trees as they travel between processes: a pickle, and beside it what large arrays hold."""

import dataclasses
from typing import Any

import numpy as np

# Bytes from which the contents of arrays go beside the pickle, which copies them.
LARGE = 200_000


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """A tree that can be sent, and read later in another precision of JAX's.

    Attributes:
        pickle: the tree, or all of it but the contents of its arrays.
        contents: of its arrays, as bytes; none where they are in the pickle.
    """

    pickle: bytes = b""
    contents: tuple[np.ndarray, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all."""
        return len(self.pickle) + sum(a.nbytes for a in self.contents)


def packed(tree: Any) -> Packed:
    """A tree as it travels; what arrays hold is not copied.

    Raises:
        Exception: whatever is raised where it cannot be pickled.
    """
    from distributed.protocol.pickle import dumps

    buffers: list[Any] = []
    pickle = dumps(tree, buffer_callback=buffers.append)
    contents = tuple(np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers)
    if sum(a.nbytes for a in contents) < LARGE:
        return Packed(dumps(tree))
    return Packed(pickle, contents)


def unpacked(sent: Packed) -> Any:
    """The tree; large arrays cannot be written to."""
    from distributed.protocol.pickle import loads

    return loads(sent.pickle, buffers=sent.contents)
