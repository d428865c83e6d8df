"""One consumer group or queue: who has which partition, what is in flight, what was given up; and moving it."""

from __future__ import annotations

from riverrun.serve.pages.dead_letters import list_dead
from riverrun.serve.pages.flow_health import STOPPED, badge
from riverrun.serve.pages.group_actions import ACTIONS
from riverrun.serve.pages.group_state import GroupState, TopicPart, look_at_group
from riverrun.serve.pages.groups_page import link_dead
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import number, span
from riverrun.serve.pages.shell import Asked, Drawn, address, empty, figure, figures, notice, summary, table
from riverrun.serve.pages.table_cells import heads


def draw(history: History, asked: Asked) -> Drawn:
    group = look_at_group(history, asked.name)
    regions = {"summary": summary(history, asked), "figures": _numbers(group)}
    done = next((action.done for action in ACTIONS if action.name == asked.get("done")), None)
    if done:
        regions["done"] = notice("ok", done)
    regions["members"] = _workers(group) if group.is_queue else _members(group)
    regions["partitions"] = _partitions(group)
    if any(group.dead.values()):
        lists = [list_dead(history, topic, asked) for topic, count in group.dead.items() if count]
        regions["dead"] = join(tag("h2", "Dead letters"), *lists)
    regions["actions"] = _actions(group, asked)
    return Drawn(group.name, regions)


def _numbers(group: GroupState) -> Html:
    parts = [
        figure(
            "Not yet done" if group.is_queue else "Not yet read",
            number(group.said["rows"], "rows"),
            join("the oldest came ", span(group.said["seconds"]), " ago") if group.said["rows"] else "up to date",
        ),
        figure("Working", number(group.members, "workers" if group.is_queue else "members")),
    ]
    if group.is_queue:
        waiting = max(group.unfinished - group.in_flight, 0)
        parts += [
            figure("In flight", number(group.in_flight, "messages"), join(number(waiting), " about to come again")),
            figure("Dead letters", link_dead(group), "given up after too many attempts"),
        ]
    lost = group.lost
    parts.append(
        figure(
            "Lost",
            badge(STOPPED, f"{lost} rows") if lost else number(0, "rows"),
            "removed by retention before they were read",
        )
    )
    kind = tag("span", "Queue " if group.is_queue else "Group ", class_="quiet")
    return join(tag("h2", kind, group.name), figures(*parts))


def _members(group: GroupState) -> Html:
    head = tag("h2", "Members")
    if not group.said["members"]:
        return join(head, empty("Nobody reads for this group now; what comes waits for it"))
    rows = [
        tag(
            "tr",
            tag("th", one["member"], scope="row"),
            tag("td", one["process"], class_="n"),
            tag("td", span(one["seconds"])),
            tag("td", ", ".join(one["topics"]), class_="wide"),
            tag("td", _owned(one["partitions"]), class_="wide"),
            id=f"member-{one['member']}",
        )
        for one in group.said["members"]
    ]
    names = ["Member", "Process", "For", "Topics", "Partitions"]
    return join(head, table("Who is alive, and what each has", heads(names, ["Process"]), rows))


def _owned(partitions: dict[str, list[int]]) -> str:
    return "; ".join(f"{topic} {', '.join(map(str, sorted(numbers)))}" for topic, numbers in partitions.items()) or "–"


def _workers(group: GroupState) -> Html:
    head = tag("h2", "Workers")
    if not group.said["workers"]:
        return join(head, empty("Nobody works this queue off now; what comes waits for it"))
    rows = [
        tag(
            "tr",
            tag("th", one["process"], scope="row"),
            tag("td", one["topic"]),
            tag("td", number(one["messages"]), class_="n"),
            tag("td", "–" if one["seconds"] is None else span(max(one["seconds"], 0.0)), class_="n"),
            id=f"worker-{one['identity'].replace('/', '-')}-{one['topic']}",
        )
        for one in group.said["workers"]
    ]
    names = ["Process", "Topic", "Messages", "First lease ends in"]
    return join(head, table("Who is there, and who has messages now", heads(names, names[2:]), rows))


def _partitions(group: GroupState) -> Html:
    numbers = ["Partition", "Offset", "Latest", "Rows behind", "Time behind", "Lost"]
    last = "Handed out" if group.is_queue else "With process"
    names = ["Topic", *numbers, last]
    rows = [_part(group, part) for part in group.partitions()]
    caption = "How far it is, by partition; the offset is " + (
        "of the first message that is not done" if group.is_queue else "the next that will be read"
    )
    return join(tag("h2", "Partitions"), table(caption, heads(names, [*numbers, last]), rows))


def _part(group: GroupState, part: TopicPart) -> Html:
    said, lost = part.said, part.said["lost"]
    held = number(said.get("unfinished", 0)) if group.is_queue else ("nobody" if part.holder is None else part.holder)
    return tag(
        "tr",
        tag("th", tag("a", part.topic, href=address("topics", part.topic)), scope="row"),
        tag("td", part.partition, class_="n"),
        tag("td", "never" if said["committed"] is None else said["committed"], class_="n"),
        tag("td", said["latest"], class_="n"),
        tag("td", number(said["rows"]), class_="n", data_flash=True),
        tag("td", span(said["seconds"]) if said["rows"] else "–", class_="n"),
        tag("td", badge(STOPPED, str(lost)) if lost else "0", class_="n"),
        tag("td", held, class_="n"),
        id=f"part-{part.topic}-{part.partition}",
    )


def _actions(group: GroupState, asked: Asked) -> Html:
    if not asked.may_change:
        return tag("p", "To move this group, use a token with the role admin.", class_="note")
    return join(*(action.draw(group, f"{asked.path}?action={action.name}") for action in ACTIONS))
