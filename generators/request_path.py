"""The README's picture: the way of a request, as SVG."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "request-path.svg"
WIDTH, HEIGHT = 860, 300
LINE_HEIGHT = 17
ARROW = 6
"""Length of an arrow's head, in pixels."""
HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">
<title>The way of a request</title>
<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>
<marker id="head" orient="auto" markerWidth="8" markerHeight="8" refX="{ARROW}" refY="3" markerUnits="userSpaceOnUse">
<path d="M0,0 L{ARROW},3 L0,6 z" fill="#333"/></marker>
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text; the first one is bold."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...]
    fill: str

    @property
    def right(self) -> tuple[int, int]:
        """The middle of its right side."""
        return self.x + self.width, self.y + self.height // 2

    @property
    def left(self) -> tuple[int, int]:
        """The middle of its left side."""
        return self.x, self.y + self.height // 2


CLIENT = Box(20, 80, 110, 60, ("Client", "OpenAI API"), "#f2f2f2")
SERVICE = Box(190, 80, 110, 60, ("Service", "or Ingress, TLS"), "#e3eefc")
ROUTERS = tuple(
    Box(360, y, 180, 70, ("Router pod", "two HAProxy processes", text), "#fdf0d9")
    for y, text in (
        (25, "keys, limits, queue"),
        (125, "holds requests at zero"),
    )
)
ENGINES = tuple(Box(640, y, 190, 46, ("Engine pod", "vLLM on computed GPUs"), "#e2f4e4") for y in (20, 84, 148))
OPERATOR = Box(
    190,
    228,
    640,
    52,
    ("inference-operator", "sizes, creates, scales and repairs all of these; no request passes through it"),
    "#eeeaf7",
)


def page() -> str:
    """The picture."""
    boxes = (CLIENT, SERVICE, *ROUTERS, *ENGINES, OPERATOR)
    return (
        HEAD
        + "".join(f"{line}\n" for line in (*_arrows(), *(part for box in boxes for part in _drawn(box))))
        + "</svg>\n"
    )


def _arrows() -> Iterator[str]:
    yield _arrow(CLIENT.right, SERVICE.left)
    for router in ROUTERS:
        yield _arrow(SERVICE.right, router.left)
        for engine in ENGINES:
            yield _arrow(router.right, engine.left)


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#333" marker-end="url(#head)"/>'


def _drawn(box: Box) -> Iterator[str]:
    place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"'
    yield f'<rect {place} rx="6" fill="{box.fill}" stroke="#666"/>'
    middle = box.x + box.width // 2
    first = box.y + box.height // 2 - LINE_HEIGHT * (len(box.lines) - 1) // 2 + 5
    for number, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if number == 0 else ""
        place = f'x="{middle}" y="{first + number * LINE_HEIGHT}" text-anchor="middle"{weight}'
        yield f"<text {place}>{escape(line)}</text>"


def write() -> None:
    """Write the picture into the documentation."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(page(), encoding="utf-8")
