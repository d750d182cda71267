"""SVG files of what is drawn, small, and for light and dark surroundings."""

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator

from cavity.drawing import ACCENT, FAINT, INK, MODEL, STYLE
from cavity.drawing.axes import Figure

_DARK = {INK: "#e6edf3", FAINT: "#7d8590", MODEL: "#56b4e9", ACCENT: "#f0a040"}


def picture(draw: Callable[[Figure], None], width: float = 8.4, height: float = 3.5) -> str:
    """An SVG file, as text, of what `draw` draws on an empty figure.

    In a style of its own: neither the caller's matplotlib settings nor pyplot play a part. In dark
    surroundings the file shows its lines and letters in light colours.

    Args:
        draw: receives the figure.
        width: in inches; a browser shows 96 pixels for each.
        height: in inches.
    """
    from matplotlib.figure import Figure

    with in_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        return svg_of(figure)


@contextlib.contextmanager
def in_style() -> Iterator[None]:
    """A style of its own for what is drawn within, whatever the settings of matplotlib are."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # names may hold letters that matplotlib's own font lacks: the browser's have them
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def svg_of(figure: Figure) -> str:
    """An SVG file, as text, of a figure that was drawn `in_style`.

    Args:
        figure: of matplotlib.
    """
    import io

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", dpi=130, metadata=nothing)
    return _compact(file.getvalue())


def _compact(svg: str) -> str:
    """The SVG element with shared styles, two decimals, and colours for light and dark mode."""
    styles: dict[str, str] = {}

    def named(style: re.Match) -> str:
        return f'class="{styles.setdefault(style[1], f"s{len(styles)}")}"'

    def shorter(tag: re.Match) -> str:
        return re.sub(r'style="([^"]*)"', named, re.sub(r"(\.\d\d)\d+", r"\1", tag[0]))

    svg = re.sub(r"<(?:path|use|text)\b[^>]*>", shorter, svg[svg.index("<svg") :])
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_DARK))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(_DARK.values()))
    rules = "".join(f".{name}{{{style}}}" for style, name in styles.items())
    for i, colour in enumerate(_DARK):
        rules = rules.replace(colour, f"var(--c{i})")
    moods = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    end = svg.index(">") + 1
    return f"{svg[:end]}<style>{moods}{rules}</style>{svg[end:]}"
