"""The home page: what runs, where rows go, what is slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from riverrun.runtime.ledger import LEDGER_PARTS, LedgerEntry
from riverrun.runtime.status import ComputedBy, FlowStatus, SourceStatus
from riverrun.serve.pages.flow_health import BEHIND, SHAPES, badge
from riverrun.serve.pages.flow_picture import ALERT, SOURCE, VIEW, Box, Picture, picture_flow
from riverrun.serve.pages.graph_layout import HEIGHT, WIDTH, GraphLayout, lay_out
from riverrun.serve.pages.history import FlowHistory, History
from riverrun.serve.pages.markup import Content, Html, join, tag
from riverrun.serve.pages.quantities import UNKNOWN, ago, clock, number, rate, share, short, size, span
from riverrun.serve.pages.shell import ROOT, Asked, Drawn, address, choose_flow, empty, figure, figures, summary, table

_KINDS = {"source": "topic", "operator": "", "view": "view", "topic": "topic", "alert": "alert"}
_LEGIBLE = 1760  # a wider graph is scrolled; one up to this width is made to fit
_WIDEST = 16  # characters of a title in its box
_LINE = 20  # and of the line below it, with the state


def draw(history: History, asked: Asked) -> Drawn:
    past = choose_flow(history, asked)
    regions = {"summary": summary(history, asked)}
    if past is None:
        regions["flow"] = empty("No flow has run in this river yet. To see one at work", "riverrun demo")
        return Drawn("Flow", regions)
    drawn = picture_flow(history, past)
    regions["figures"] = _numbers(past.status)
    regions["graph"] = _graph(drawn, asked)
    wanted = next((box for box in drawn.boxes if box.id == asked.get("node")), None)
    if wanted:
        regions["node"] = _details(wanted, past.status, asked)
    regions["nodes"] = _list(drawn, past, asked)
    return Drawn("Flow", regions)


def _numbers(status: FlowStatus) -> Html:
    if status.state == "unknown":
        return empty("The run does not answer; what it committed is in its views")
    lag, watermark_lag, read = status.lag, status.watermark_lag, status.rows_read
    return figures(
        figure("Rows processed", rate(status.rows_per_second), join(number(read, "rows"), " in all")),
        figure(
            "Not yet processed",
            number(lag.rows, "rows"),
            join(span(lag.seconds), " behind") if lag.rows else "up to date",
            "behind" if lag.seconds >= BEHIND else "",
        ),
        figure(
            "Watermark",
            UNKNOWN if watermark_lag is None else join(span(watermark_lag), " behind"),
            "no row with a time yet" if watermark_lag is None else "event time has come so far",
        ),
        figure(
            "Late rows",
            number(status.late, "rows"),
            join("came too late to count, ", share(status.late, read), " of what was read")
            if read
            else "nothing was read yet",
        ),
        figure("Fresh as of", clock(status.committed), join("epoch ", number(status.epoch))),
        figure("State", size(status.state_size.bytes), _kept_in(status.state_size.files)),
    )


def _graph(drawn: Picture, asked: Asked) -> Html:
    placed = lay_out(tuple(box.id for box in drawn.boxes), tuple((line.start, line.end) for line in drawn.lines))
    edges = [
        tag("path", d=placed.paths[line.start, line.end], class_="edge moving" if line.rate else "edge")
        for line in drawn.lines
    ]
    labels = _labels(drawn, placed)
    boxes = [_box(box, placed.places[box.id].x, placed.places[box.id].y, asked) for box in drawn.boxes]
    picture = tag(
        "svg",
        tag("title", "The flow, from its topics on the left to its results on the right"),
        *edges,
        *labels,
        *boxes,
        viewBox=f"0 0 {placed.width:g} {placed.height:g}",
        width=f"{placed.width:g}",
        height=f"{placed.height:g}",
        class_="flow fitted" if placed.width <= _LEGIBLE else "flow",
        role="group",
    )
    return tag("div", picture, class_="scroll picture", tabindex="0", role="region", aria_label="The flow as a graph")


def _labels(drawn: Picture, placed: GraphLayout) -> list[Html]:
    """The rate of every edge, where it cannot be taken for another's: before the end's box, or after the start's. Where
    both have more edges than one, those before a box are in the order in which the edges come from above."""
    views = {box.id for box in drawn.boxes if box.shape == VIEW}
    ins, outs = Counter(line.end for line in drawn.lines), Counter(line.start for line in drawn.lines)
    said_at: Counter[str] = Counter()
    labels = []
    for line in sorted(drawn.lines, key=lambda line: placed.places[line.start].y):
        if line.rate is None:
            continue
        if ins[line.end] > 1 and outs[line.start] == 1:
            at, anchor = placed.places[line.start], "start"
            x, y = at.x + WIDTH + 8, at.y + HEIGHT / 2 - 8
        else:
            at, anchor = placed.places[line.end], "end"
            x, y = at.x - 8, at.y + HEIGHT / 2 + (16 * said_at[line.end] or -8)
            said_at[line.end] += 1
        what = "rows changed" if line.end in views else "rows"
        title = tag("title", f"{line.rate:.1f} {what} per second")
        labels.append(tag("text", title, f"{short(line.rate)}/s", x=x, y=y, class_="rate", text_anchor=anchor))
    return labels


def _box(box: Box, x: float, y: float, asked: Asked) -> Html:
    kind = _KINDS[box.shape]
    label = f"{kind or box.title} {box.title if kind else box.label}: {box.word}"
    second = box.label if box.shape == "operator" else kind
    state = f"{SHAPES[box.state]} {box.word}" if box.shape != "operator" or box.state != "ok" else ""
    return tag(
        "a",
        tag("title", f"{label}\n{box.label}\n{box.place or ''}".rstrip()),
        tag(
            "rect",
            width=WIDTH,
            height=HEIGHT,
            rx=4 if box.shape == "operator" else HEIGHT / 2 if box.shape == SOURCE else 12,
        ),
        tag("text", _fit(box.title), x=16, y=26, class_="name"),
        tag("text", _fit(second, _LINE - len(state) - 1 if state else _LINE), x=16, y=46, class_="kind"),
        tag("text", state, x=WIDTH - 16, y=46, class_="state", text_anchor="end") if state else None,
        href=asked.link(node=box.id) + "#node",
        transform=f"translate({x:g} {y:g})",
        class_=f"box {box.shape} {box.state}" + (" chosen" if asked.get("node") == box.id else ""),
        aria_label=label,
    )


def _fit(text: str, widest: int = _WIDEST) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= widest else one_line[: widest - 1] + "…"


def _details(box: Box, status: FlowStatus, asked: Asked) -> Html:
    said = box.described
    rows: list[tuple[str, Content]] = [("State", badge(box.state, box.word)), ("What it does", box.label)]
    if box.target:
        rows.append(("Page", _link(box)))
    if box.place:
        rows.append(("Declared at", tag("code", box.place)))
    if said.get("schema"):
        rows.append(
            ("Columns", tag("code", ", ".join(f"{name} {kind or '?'}" for name, kind in said["schema"].items())))
        )
    if said.get("key"):
        rows.append(("Key", tag("code", ", ".join(said["key"]))))
    if computed := [one for one in status.expressions if one.target == box.id]:
        rows.append(("Expressions", _engines(computed)))
    for entry in status.ledger:
        if entry.node in (box.id, box.target) and (box.shape == SOURCE) == (entry.input == "topic"):
            rows.append((f"Rows read ({entry.input})", _entry(entry)))
    for source in status.sources:
        if source.source == box.id:
            rows.append(("Watermark", _watermark(source)))
    takes = status.state_size.nodes.get(box.id)
    if takes:
        rows.append(("State size", join(size(takes.bytes), " ", _kept_in(takes.files))))
    for name, count in status.figures.get(box.id, {}).items():
        rows.append((name.capitalize(), number(count)))
    if clocks := status.clocks.get(box.id):
        rows.append(
            ("Clocks furthest off", ", ".join(f"{device} {offset:+.1f} s" for device, offset in clocks.items()))
        )
    if said.get("kind") == "as_of":
        rows.append(
            ("Rows out", "may be more than came in: a version that arrives answers the rows it is valid for again")
        )
    if box.id in status.nodes:
        rows.append(("Time in the last epoch", span(status.nodes[box.id])))
    return tag(
        "section",
        tag("h2", f"{_KINDS[box.shape] or box.title} {box.title if _KINDS[box.shape] else ''}".strip()),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in rows), class_="details"),
        tag("p", tag("a", "Close", href=asked.link(node=None))),
        class_="card",
        aria_label="The chosen node",
    )


def _kept_in(files: int) -> Html:
    """Where state is: what is small is in the manifest, and has no file of its own."""
    return join("in ", number(files, "files")) if files else join("in the manifest")


def _entry(entry: LedgerEntry) -> Html:
    parts = [
        join(", ", number(entry.count(kind)), f" {kind.replace('_', ' ')}")
        for kind in LEDGER_PARTS
        if kind == "accepted" or entry.count(kind)
    ]
    corrected = join(" (", number(entry.corrected), " corrected a window)") if entry.corrected else None
    deleted = join(" (", number(entry.deleted, "tombstones"), ")") if entry.deleted else None
    return join(number(entry.read, "rows"), *parts, corrected, deleted)


def _engines(computed: Sequence[ComputedBy]) -> Html:
    """Who computes the SQL on the way into a node; what goes through Spark takes several times as long, so it says why."""
    by_spark = [one for one in computed if one.engine == "spark"]
    if not by_spark:
        return join("computed by the tasks")
    return join("computed by Spark: ", "; ".join(dict.fromkeys(one.reason or "a transform" for one in by_spark)))


def _watermark(source: SourceStatus) -> Html:
    if source.watermark is None or source.behind is None:
        return UNKNOWN
    slowest = source.held_by[0] if source.held_by else None
    held = join(", held back by ", tag("strong", slowest.producer)) if slowest else ""
    heard = join(", last heard ", ago(slowest.heard)) if slowest else ""
    return join(clock(source.watermark), " (", span(source.behind), " behind)", held, heard)


def _link(box: Box) -> Html | None:
    if not box.target:
        return None
    if box.shape == ALERT:
        return tag("a", "alerts", href=f"{ROOT}/alerts")
    kind = "views" if box.shape == VIEW else "topics"
    return tag("a", box.target, href=address(kind, box.target))


def _list(drawn: Picture, past: FlowHistory, asked: Asked) -> Html:
    spent, sizes = past.status.nodes, past.status.state_size.nodes
    slowest = max(spent, key=lambda one: spent[one], default=None)
    into: dict[str, list[float]] = {}
    outof: dict[str, float] = {}  # of a topic, all of its rows go along every edge
    for line in drawn.lines:
        if line.rate is not None:
            into.setdefault(line.end, []).append(line.rate)
            outof[line.start] = max(line.rate, outof.get(line.start, 0.0))
    engine: dict[str, str] = {}
    for one in past.status.expressions:
        engine[one.target] = "Spark" if one.engine == "spark" else engine.get(one.target, "tasks")
    rows = []
    for box in drawn.boxes:
        came = sum(into[box.id]) if box.id in into else None
        if box.shape == SOURCE:  # more than it gives, where rows are put into quarantine
            read = past.rate(box.id, "topic")
            came = outof.get(box.id) if read is None else read
        took = spent.get(box.id)
        rows.append(
            tag(
                "tr",
                tag("th", tag("a", box.title, href=asked.link(node=box.id) + "#node"), scope="row"),
                tag("td", _KINDS[box.shape] or box.label, class_="wide"),
                tag("td", badge(box.state, box.word)),
                tag("td", engine.get(box.id, "–")),
                tag("td", rate(came) if came is not None else "–", class_="n"),
                tag("td", size(sizes[box.id].bytes) if box.id in sizes else "–", class_="n"),
                tag(
                    "td",
                    "–" if took is None else join(span(took), " ← slowest" if box.id == slowest else ""),
                    class_="n",
                ),
                tag("td", tag("code", box.place) if box.place else "–"),
                id=f"row-{box.id}",
            )
        )
    heads: list[Content] = [
        "Node",
        "What it does",
        "State",
        "SQL by",
        _n("Rows in"),
        _n("State size"),
        _n("Last epoch"),
        "Declared at",
    ]
    return table("All nodes, from the topics to the results", heads, rows)


def _n(name: str) -> Html:
    return tag("th", name, scope="col", class_="n")
