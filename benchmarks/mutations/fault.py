"""What a deliberate fault is."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A change of the source that makes it wrong.

    Attributes:
        name: what is wrong.
        file: the file below `src/cavity`.
        text: the source, which occurs there once.
        replacement: what stands in its place.
        tests: the nearest tests: files below `tests`, or `file::test` of some of them.
    """

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def applied(self, source: str) -> str:
        """The source with the fault.

        Raises:
            ValueError: unless the text occurs exactly once.
        """
        count = source.count(self.text)
        if count != 1:
            raise ValueError(
                f"{self.name}: its text occurs {count} times in {self.file}, not once"
            )
        return source.replace(self.text, self.replacement)
