"""The look of charts: palette, type and the bytes they become; matplotlib is imported when a chart is drawn.

    drawn(figure) -> svg, png          the same figure, the same bytes: fixed ids, no dates, no names of programs

Colours are told apart with every common kind of colour blindness: levels run from ochre to blue, means from pale to deep blue.
Ink, soft ink and rules have fixed colours, which a page may exchange for its own.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from typecase.errors import NeedsExtra
from typecase.store.audit.files import visible

INK, SOFT, RULE = "#20242c", "#68707d", "#dfe2e6"
ON_LIGHT, ON_DARK = "#14181f", "#fdfdfc"
BLUE, OCHRE, TEAL, PLUM = "#2a6496", "#b8651b", "#3c8d8a", "#7a4b86"
SETS = (BLUE, OCHRE, TEAL, PLUM, "#8a8f98", "#b0903a")
_LEVELS = ("#a8540f", "#dd9d55", "#d9d5cc", "#84adcb", "#24598a")
_DEPTH = ("#f2efe8", "#c9d9e2", "#8fb5cd", "#4f86ae", "#1d4a76")
_SIGN = ("#a8540f", "#dfb078", "#f2efe8", "#8fb5cd", "#1d4a76")
WIDTH = 7.4
"""Inches; a page shows it about half as large again."""
_MARGIN = 0.12

TAG = re.compile(r"<[^<>]*>")
"""A tag of an SVG that matplotlib wrote: in texts and attributes it writes angles as entities."""

_RC: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "typecase",
    "text.parse_math": False,
    "text.usetex": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": RULE,
    "axes.linewidth": 0.8,
    "axes.titlesize": 7.5,
    "axes.unicode_minus": True,
    "xtick.color": SOFT,
    "ytick.color": INK,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "path.simplify": False,
}


def need_matplotlib() -> None:
    """Raises NeedsExtra where charts cannot be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise NeedsExtra("drawing charts", "report") from None


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib under our settings and no one else's; what was set before comes back."""
    need_matplotlib()
    import warnings

    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a viewer has fonts for names that Agg lacks
        matplotlib.rcdefaults()
        settings: Any = matplotlib.rcParams
        settings.update(_RC)
        yield


def new_figure(height: float, width: float = WIDTH) -> Any:
    """An empty figure of so many inches, drawn without a screen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03)
    return figure


def drawn(figure: Any, name: str) -> tuple[bytes, bytes]:
    """The figure as SVG and as PNG of 200 dots an inch on white; ids in the SVG begin with `name`."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once; each format would do it again
    box = figure.get_tightbbox(figure.canvas.get_renderer()).padded(_MARGIN)
    svg, png = io.BytesIO(), io.BytesIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(svg, format="svg", metadata=nothing, bbox_inches=box)
    figure.savefig(png, format="png", dpi=200, metadata={"Software": None}, facecolor="#ffffff", bbox_inches=box)
    return _own_ids(svg.getvalue().decode(), name).encode(), png.getvalue()


def _own_ids(svg: str, name: str) -> str:
    """Ids that no other figure of the page has; only tags are touched, never a text."""

    def renamed(tag: re.Match[str]) -> str:
        own = re.sub(r'(\bid=")([^"]+")', rf"\g<1>{name}-\2", tag[0])
        own = re.sub(r"(url\(#)([^)]+\))", rf"\g<1>{name}-\2", own)
        return re.sub(r'(href="#)([^"]+")', rf"\g<1>{name}-\2", own)

    return TAG.sub(renamed, svg)


def short(name: str, size: int = 30) -> str:
    """A name on one line that fits beside a chart: its middle is cut where it is long, and nothing in it is invisible."""
    name = visible(name)
    return name if len(name) <= size else f"{name[: size // 2 - 1]}…{name[-(size // 2) :]}"


def level_colours(num: int) -> list[str]:
    """A colour for each level of a scale, from poor to good."""
    return [_between(_LEVELS, i / max(1, num - 1)) for i in range(num)]


def depth_colour(share: float) -> str:
    """Pale for 0, deep for 1."""
    return _between(_DEPTH, share)


def sign_colour(value: float) -> str:
    """Ochre for -1, pale for 0, blue for 1."""
    return _between(_SIGN, (value + 1) / 2)


def text_colour(background: str) -> str:
    """Dark or light, whichever is read better on a colour (relative luminance, WCAG 2.2)."""
    light = sum(w * _linear(v) for w, v in zip((0.2126, 0.7152, 0.0722), _rgb(background), strict=True))
    return ON_LIGHT if (light + 0.05) / 0.06 > 1.05 / (light + 0.05) else ON_DARK


def _linear(value: float) -> float:
    share = value / 255
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _between(stops: Sequence[str], share: float) -> str:
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    left = min(int(place), len(stops) - 2)
    part = place - left
    mixed = (round(a + (b - a) * part) for a, b in zip(_rgb(stops[left]), _rgb(stops[left + 1]), strict=True))
    return "#" + "".join(f"{v:02x}" for v in mixed)
