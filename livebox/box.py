"""The live box on a terminal: what a run does right now, and one line when it has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from generated.models import LiveUnit, Money, Run, RunStep, RunSummary
from livebox.printable import printable

MARKS: Final = {"completed": "✓", "failed": "✗", "cancelled": "-"}
STYLES: Final = {
    "completed": "green",
    "failed": "red",
    "cancelled": "yellow",
    "running": "cyan",
    "waiting_input": "magenta",
    "queued": "dim",
}
_PLAN: Final = {"pending": "○", "in_progress": "◐", "done": "●", "skipped": "-"}
_UNITS: Final = (("subagents", "sub-agent"), ("workflows", "workflow"), ("jobs", "job"))
_WAITING: Final = {
    "model": "the model",
    "tool": "a tool",
    "child": "a sub-agent",
    "provider_retry": "the provider, to try again",
    "rate_limit": "a rate limit",
}
STEPS_SHOWN: Final = 6
TEXT_LINES: Final = 6


def box(
    run: Run,
    agent: str,
    *,
    describe: Callable[[RunStep], str],
    spinner: Spinner | None = None,
    now: datetime | None = None,
) -> RenderableType:
    """The run as a panel. `describe` gives a step in one line, `now` is the present time, for how long it goes."""
    parts: list[RenderableType] = []
    facts = " · ".join(numbers(run))
    if facts:
        parts.append(Text(facts, "dim"))
    for note, style in notes(run):
        parts.append(Text(note, style))
    if "headline" in run:
        parts.append(Text(printable(run["headline"], 300), "bold"))
    parts += [
        each for each in (_plan(run), _steps(run, describe, spinner), _tool(run), _units(run)) if each is not None
    ]
    if "text" in run:
        tail = [line for line in run["text"]["content"].splitlines() if line.strip()][-TEXT_LINES:]
        parts.append(Text("\n".join(printable(line, 300) for line in tail), "italic"))
    if "question" in run:
        parts += [Text(line, "magenta") for line in question(run)]
    title = Text.assemble((printable(agent, 60), "bold"), " ", (run["state"], STYLES.get(run["state"], "")))
    title.append(f" {seconds(run, now)}".rstrip())
    body = Group(*parts) if parts else Text("waiting for the agent", "dim")
    return Panel(body, title=title, title_align="left", expand=False, border_style=STYLES.get(run["state"], ""))


def line(run: Run | RunSummary, agent: str) -> str:
    """The ended run in one line."""
    state = run["state"]
    facts = [f"{MARKS.get(state, '…')} {agent} {state}"]
    if "state_reason" in run:
        facts[0] += f" ({run['state_reason']})"
    if "duration_ms" in run:
        facts[0] += f" in {run['duration_ms'] / 1000:.1f} s"
    facts.append(f"{run['step_count']:,} step{'' if run['step_count'] == 1 else 's'}")
    if "cost" in run:
        facts.append(money(run["cost"]))
    summary = run.get("summary") or run.get("headline")
    return printable(", ".join(facts) + (f": {summary}" if summary else ""), 400)


def changes(before: Run | None, run: Run, describe: Callable[[RunStep], str]) -> Iterator[str]:
    """What is new since the document before, line by line, for outputs that are no terminal."""
    old: Mapping[str, Any] = before if before is not None else {}
    new: Mapping[str, Any] = run
    if old.get("state") != run["state"]:
        yield run["state"]
    known = old.get("steps", {})
    for step in ordered(run):
        if step["status"] != "running" and known.get(step["id"], {}).get("status") != step["status"]:
            yield f"{MARKS[step['status']]} {describe(step)}"
    if "headline" in run and old.get("headline") != run["headline"]:
        yield printable(run["headline"], 300)
    if "tool" in run and old.get("tool", {}).get("name") != run["tool"]["name"]:
        yield f"tool: {printable(run['tool'].get('title') or run['tool']['name'], 300)}"
    for name, status in _newer(old.get("plan", {}).get("items", {}), run.get("plan", {}).get("items", {}), "status"):
        yield f"{_PLAN.get(status, '')} {printable(name, 300)}"
    for member, noun in _UNITS:
        for name, state in _newer(old.get(member, {}), new.get(member, {}), "state"):
            yield f"{noun} {printable(name, 200)}: {state}"
    told = [note for note, _ in notes(old)]
    yield from (note for note, _ in notes(run) if note not in told)
    if "question" in run and "question" not in old:
        yield from question(run)


def numbers(run: Run) -> list[str]:
    """Context, tokens, tool calls and cost, where they are known."""
    metrics = run.get("metrics", {})
    found = []
    if "context_used_percent" in metrics:
        found.append(f"context {metrics['context_used_percent']:.0f} %")
    tokens = [f"{metrics[name]:,} {word}" for name, word in _TOKENS if name in metrics]  # type: ignore[literal-required]
    if tokens:
        found.append("tokens " + ", ".join(tokens))
    if "tool_calls" in metrics:
        found.append(f"{metrics['tool_calls']:,} tool call{'' if metrics['tool_calls'] == 1 else 's'}")
    cost = run.get("cost") or metrics.get("cost")
    if cost is not None:
        found.append(money(cost))
    if found and "simulated" in run.get("model", ""):  # as the agent of the demo says of its own
        found.append("simulated")
    return found


_TOKENS: Final = (("input_tokens", "in"), ("output_tokens", "out"))


def notes(run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What needs attention, each with its style: a stall, a retry, what it waits for, a request to cancel."""
    found = []
    if "stalled_since" in run:
        found.append((f"no progress since {run['stalled_since'][11:19]} UTC", "yellow"))
    retry = run.get("metrics", {}).get("last_api_retry")
    if retry is not None:
        of = f" of {retry['max_attempts']}" if "max_attempts" in retry else ""
        found.append((f"tried again: {printable(retry['reason'], 200)}, attempt {retry['attempt']}{of}", "yellow"))
    if "waiting_on" in run:
        found.append((f"waits for {_WAITING.get(run['waiting_on'], run['waiting_on'])}", "dim"))
    receipt = run.get("cancel")
    if receipt is not None and "outcome" not in receipt:
        found.append(("asked to stop" + (", and knows it" if "acknowledged_at" in receipt else ""), "yellow"))
    return found


def question(run: Run) -> list[str]:
    """What it asks, and what may be answered."""
    asked = run.get("question")
    if asked is None:
        return []
    choices = [f"  {key}: {printable(label, 300)}" for key, label in asked.get("choices", {}).items()]
    return [f"? {printable(asked['prompt'], 1000)}", *choices]


def money(cost: Money) -> str:
    """An amount with its currency; estimates say so."""
    return f"{'about ' if cost['is_estimate'] else ''}{cost['amount_micros'] / 1e6:,.4f} {cost['currency']}"


def seconds(run: Run | RunSummary, now: datetime | None = None) -> str:
    """How long it went, or goes by now; empty for one that has not begun."""
    if "duration_ms" in run:
        return f"{run['duration_ms'] / 1000:.1f} s"
    if "started_at" not in run:
        return ""
    passed = ((now or datetime.now(UTC)) - datetime.fromisoformat(run["started_at"])).total_seconds()
    return f"{max(passed, 0):.0f} s"


def ordered(run: Run) -> list[RunStep]:
    """The steps of the run document, in their order."""
    return sorted(run.get("steps", {}).values(), key=lambda step: step["ordinal"])


def described(step: RunStep) -> str:
    """A step in one line, with the first plain values of what it found."""
    plain = [
        f"{name} {value}" for name, value in step.get("detail", {}).items() if isinstance(value, str | int | float)
    ]
    found = ", ".join(plain[:4])
    return printable(f"{step.get('title') or step['name']}{f': {found}' if found else ''}")


def active(runs: Sequence[RunSummary], agents: Mapping[str, str], now: datetime | None = None) -> RenderableType:
    """Running now, as a table; `agents` are handles by id."""
    if not runs:
        return Text("nothing runs", "dim")
    table = Table("run", "agent", "state", "since", "steps", "headline", box=None, pad_edge=False, header_style="bold")
    for run in runs:
        headline = printable(run.get("headline", ""), 80)
        state = Text(run["state"], STYLES.get(run["state"], ""))
        agent = printable(agents.get(run["agent_id"], ""), 40)
        table.add_row(run["id"], agent, state, seconds(run, now), str(run["step_count"]), Text(headline))
    return table


def _newer(old: Mapping[str, Any], new: Mapping[str, Any], member: str) -> Iterator[tuple[str, str]]:
    """What is there anew or has changed in one member: its title or name, and that member; by ordinal."""
    for key, value in sorted(new.items(), key=lambda item: item[1].get("ordinal", 0)):
        if old.get(key, {}).get(member) != value[member]:
            yield value.get("title") or value.get("name") or key, value[member]


def _plan(run: Run) -> RenderableType | None:
    items = sorted(run.get("plan", {}).get("items", {}).values(), key=lambda item: item["ordinal"])
    if not items:
        return None
    grid = Table.grid(padding=(0, 1))
    for item in items:
        grid.add_row(_PLAN.get(item["status"], ""), Text(printable(item["title"], 300)))
    return grid


def _steps(run: Run, describe: Callable[[RunStep], str], spinner: Spinner | None) -> RenderableType | None:
    steps = ordered(run)[-STEPS_SHOWN:]
    if not steps:
        return None
    grid = Table.grid(padding=(0, 1))
    for step in steps:
        status = step["status"]
        going: RenderableType = spinner if spinner is not None else Text("…", STYLES["running"])
        grid.add_row(going if status == "running" else Text(MARKS[status], STYLES[status]), Text(describe(step)))
    return grid


def _tool(run: Run) -> RenderableType | None:
    tool = run.get("tool")
    if tool is None:
        return None
    words = f"⚒ {tool.get('title') or tool['name']}"
    if "progress" in tool:
        words += f" {tool['progress'] * 100:.0f} %"
    if "detail" in tool:
        words += f" {tool['detail']}"
    return Text(printable(words, 300), "cyan")


def _units(run: Run) -> RenderableType | None:
    grid = Table.grid(padding=(0, 1))
    for member, noun in _UNITS:
        units: Mapping[str, LiveUnit] = run.get(member, {})  # type: ignore[assignment]
        for unit in units.values():
            more = [f"{unit['progress'] * 100:.0f} %"] if "progress" in unit else []
            more += [f"{unit['tokens_used']:,} tokens"] if "tokens_used" in unit else []
            more += [unit["headline"]] if "headline" in unit else []
            words = printable(f"{unit['name']}: {unit['state']}" + "".join(f", {each}" for each in more), 300)
            grid.add_row(Text(noun, "dim"), Text(words))
    return grid if grid.row_count else None
