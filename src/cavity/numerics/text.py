"""Numbers of things in words."""


def plural(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun: "1 row", "2 rows".

    Args:
        number: how many.
        noun: of one.
        plural: of several, where it is not the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
