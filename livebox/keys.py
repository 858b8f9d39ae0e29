"""The configuration keys, each declared once: name, unit, default, bounds and what for.

`livebox.settings` reads them; `docs/configuration.md` is generated from `KEYS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from livebox.key import PREFIX, Key


def _declare(*keys: Key) -> Mapping[str, Key]:
    declared = {key.name: key for key in keys}
    if len(declared) < len(keys):
        raise ValueError("a key is declared twice")
    return MappingProxyType(declared)


DAY: Final = 86400
MAXIMUM_SECONDS: Final = 10 * 365 * DAY

KEYS: Final[Mapping[str, Key]] = _declare(
    Key("data", "path", ".livebox", "Folder of the embedded PostgreSQL and of the keys that this instance makes"),
    Key(
        "database.url",
        "text",
        "",
        "A PostgreSQL (15 or newer) to use instead of the embedded one",
        variable_name="DATABASE_URL",
    ),
    # serving
    Key("http.host", "text", "127.0.0.1", "Address the server listens on"),
    Key("http.port", "count", 8080, "Port the server listens on; 0 takes a free one", 0, 65535),
    Key("http.shutdown_grace", "s", 10, "How long a stopping server waits for requests that it accepted", 0, 300),
    Key("http.body_timeout", "s", 30, "How long the body of a request may take to arrive", 0.1, 600),
    Key("log.requests", "flag", False, "Write one log line for each request"),
    Key(
        "log.level", "text", "info", "Least severe level that is logged", choices=("debug", "info", "warning", "error")
    ),
    Key(
        "log.format",
        "text",
        "auto",
        "Log lines as JSON or for people; auto is for people on a terminal",
        choices=("auto", "json", "console"),
    ),
    Key("check.responses", "flag", False, "Check each response against the contract; for development, slow"),
    Key(
        "metrics.token", "text", "", "Bearer token for /metrics from beyond loopback; empty: loopback only", secret=True
    ),
    # the contract's limits
    Key("api.page_size_default", "count", 50, "Elements of a page when the request gives no limit", 1, 1000),
    Key("api.page_size_max", "count", 200, "Most elements of a page", 1, 1000),
    Key(
        "api.body_max_bytes", "bytes", 1024**2, "Largest request body; compressed ones are refused", 1024, 64 * 1024**2
    ),
    Key("idempotency.retention", "s", DAY, "How long an Idempotency-Key replays", 60, MAXIMUM_SECONDS),
    Key("rl.read.rate", "1/s", 200, "Reads per second and principal", 0.01, 1e6),
    Key("rl.read.burst", "count", 400, "Reads that a principal may do at once", 1, 10**6),
    Key("rl.write.rate", "1/s", 100, "Writes per second and principal", 0.01, 1e6),
    Key("rl.write.burst", "count", 200, "Writes that a principal may do at once", 1, 10**6),
    Key("rl.patch.rate", "1/s", 200, "Patches per second and principal", 0.01, 1e6),
    Key("rl.patch.burst", "count", 400, "Patches that a principal may send at once", 1, 10**6),
    Key("rl.auth.rate", "1/s", 20, "Failed authentications per second and peer address", 0.01, 1e6),
    Key("rl.auth.burst", "count", 200, "Failed authentications that a peer address may make at once", 1, 10**6),
    Key(
        "authz.not_found_timing_tolerance",
        "ratio",
        0.25,
        "How far the median answer times of a hidden and an absent object may differ; held by tests",
        0.01,
        1,
    ),
    # who one is
    Key("auth.token_ttl", "s", 90 * DAY, "Life of a local token when none is asked for", 60, MAXIMUM_SECONDS),
    Key("auth.jwt_issuer", "text", "", "`iss` that a JWT must carry; empty: no JWT is accepted"),
    Key("auth.jwt_audience", "text", "livebox", "`aud` that a JWT must carry"),
    Key("auth.jwt_jwks_file", "path", "", "File with the JWKS that verifies JWTs (Ed25519, looked up by `kid`)"),
    Key("auth.jwt_leeway", "s", 5, "Clock difference that `exp` and `nbf` forgive", 0, 300),
    Key("invocation.ttl", "s", 900, "Life of an invocation token", 10, DAY),
    # runs
    Key("run.claim_lease", "s", 60, "How long a claimed run is not handed to another claim", 1, DAY),
    Key(
        "run.delivery_timeout",
        "s",
        300,
        "How long a queued run, or an answer to a waiting one, waits for its agent before the run fails",
        0.5,
        30 * DAY,
    ),
    Key("run.renew_grace", "s", 60, "How long after its end an invocation token can still be renewed", 0, DAY),
    Key("run.holder_grace", "s", 60, "How long after its last sign of life a holder counts as present", 0.5, DAY),
    Key("run.cancel_timeout", "s", 30, "How long a running run has to answer a request to cancel it", 0.5, DAY),
    Key(
        "run.stall_after", "s", 300, "How long a run may be alive without progress before it shows as stalled", 0.5, DAY
    ),
    Key("run.stale_after", "s", 120, "How long a running run may be silent before it fails", 0.5, DAY),
    Key(
        "run.life_flush_interval",
        "s",
        5,
        "How often signs of life are written, and the service says that it is there",
        0.05,
        3600,
    ),
    Key("run.followups_max", "count", 20, "Most follow-ups that wait on one run", 1, 1000),
    Key("run.step_detail_max_bytes", "bytes", 16 * 1024, "Largest detail of a step", 256, 1024**2),
    Key("run.max_steps_persisted", "count", 2000, "Steps kept per run before the oldest are compacted", 10, 10**6),
    Key(
        "run.interrupt_grace",
        "s",
        30,
        "How long a running run goes on after its holder's gateway session closed, without a sign of life",
        0.5,
        DAY,
    ),
    # registered runs
    Key(
        "registered.stale_after",
        "s",
        0,
        "How long nothing may be reported on a running registered run before it fails; 0: it is never given up",
        0,
        365 * DAY,
    ),
    Key("registered.currency", "text", "USD", "Currency of a cost that is reported on a run without a budget of one"),
    Key("registered.governance_events_max", "count", 500, "Most governance events of a run", 1, 1000),
    Key(
        "registered.tree_max", "count", 1000, "Most runs below one that are read for its spend and its units", 1, 10**5
    ),
    # live content
    Key("run.checkpoint_interval", "s", 2, "How often changed live content is saved", 0.05, 600),
    Key("run.live_lease", "s", 5, "How long a process that died still owns the live content that it served", 0.5, 600),
    Key("run.version_block", "count", 256, "Versions that are set aside at a time for patches", 1, 10**6),
    Key("run.document_max_bytes", "bytes", 128 * 1024, "Largest live content of a run", 1024, 4 * 1024**2),
    Key("run.text_max_bytes", "bytes", 16 * 1024, "Largest last text in the live content", 64, 65536),
    Key("run.patch_max_bytes", "bytes", 64 * 1024, "Largest patch", 256, 4 * 1024**2),
    Key("run.patch_max_ops", "count", 100, "Most operations of one patch", 1, 1000),
    Key("run.patch_rate", "1/s", 100, "Patches per second and run", 0.01, 1e6),
    Key("run.patch_burst", "count", 200, "Patches of a run that may come at once", 1, 10**6),
    # the gateway
    Key("gateway.hello_timeout", "s", 10, "How long a new session may take to say who it is", 0.1, 300),
    Key(
        "gateway.heartbeat_interval",
        "s",
        20,
        "How often sessions are pinged; after two without a sign they end",
        0.1,
        600,
    ),
    Key("gateway.focus_max", "count", 100, "Threads and runs that a session may look at", 1, 1000),
    Key("gateway.sessions_max", "count", 50, "Sessions of one principal in one process; the oldest ends", 1, 10**5),
    Key("gateway.max_frame_bytes", "bytes", 1024**2, "Largest frame of a client", 1024, 64 * 1024**2),
    Key("gateway.max_violations", "count", 10, "Bad frames after which a session ends", 1, 1000),
    Key("gateway.coalesce_interval", "s", 0.01, "How long frames gather after one was written", 0, 1),
    Key(
        "gateway.send_queue_soft_bytes",
        "bytes",
        256 * 1024,
        "Unsent bytes after which a device gets no patches",
        4096,
        64 * 1024**2,
    ),
    Key(
        "gateway.send_queue_hard_bytes",
        "bytes",
        4 * 1024**2,
        "Unsent bytes after which a device is cut off",
        8192,
        1024**3,
    ),
    Key("gateway.slow_consumer_timeout", "s", 30, "How long a device may stay behind", 0.1, 3600),
    Key(
        "gateway.poll_interval",
        "s",
        1,
        "How often the log and watched runs are looked at without being woken",
        0.05,
        60,
    ),
    Key("gateway.recheck_interval", "s", 1, "How often the tokens of open sessions are checked", 0.05, 60),
    Key(
        "gateway.ack_timeout",
        "s",
        15,
        "How long work for an agent stays unacknowledged before it is sent again",
        0.1,
        600,
    ),
    Key(
        "gateway.shutdown_spread", "s", 5, "Longest time after which the clients of a stopping server come back", 0, 600
    ),
    Key(
        "gateway.origins",
        "text",
        "",
        "Origins of web pages that may connect, separated by spaces; the server's own always may",
    ),
    # the log
    Key("event.body_max_bytes", "bytes", 4096, "Message text in an event's payload; longer is truncated", 64, 1024**2),
    Key("events.retention", "s", 30 * DAY, "How long events are kept; older cursors have expired", 60, MAXIMUM_SECONDS),
    Key("snapshot.channels_max", "count", 500, "Channels in one snapshot page", 1, 10000),
    Key("snapshot.threads_max", "count", 500, "Threads in one snapshot page", 1, 10000),
    Key("snapshot.messages_max", "count", 500, "Message heads in one snapshot page", 1, 10000),
    Key("snapshot.active_runs_max", "count", 500, "Active runs in one snapshot page", 1, 10000),
    # the database
    Key("db.readers", "count", 4, "Connections that serve reads", 1, 64),
    Key("db.statement_timeout", "s", 10, "Longest single statement", 0.1, 600),
    Key("lane.batch_max", "count", 64, "Operations that one commit groups", 1, 1024),
    Key("lane.queue_max", "count", 2048, "Operations that may wait before the answer is: overloaded", 1, 10**6),
    Key("lane.batch_retention", "s", 3600, "How long the outcome of a batch can still be asked for", 60, DAY),
    Key("jobs.chunk", "count", 1000, "Rows that a background job touches in one transaction", 1, 10**5),
    Key("jobs.retention_interval", "s", 60, "How often what has expired is removed", 1, DAY),
    Key("jobs.reap_interval", "s", 5, "How often each process looks for runs whose time is up", 0.05, 3600),
    Key(
        "service.gap",
        "s",
        30,
        "How long no process may be there before deadlines count from its return; shorter gaps move nothing",
        0.2,
        DAY,
    ),
    # commands that talk to a running server
    Key(
        "client.url",
        "text",
        "http://127.0.0.1:8080",
        "The server that `livebox run`, `ps`, `say`, `watch`, `events` and `import` talk to",
        variable_name=PREFIX + "URL",
    ),
    Key(
        "client.token",
        "text",
        "",
        "Bearer token that those commands use",
        secret=True,
        variable_name=PREFIX + "TOKEN",
    ),
)

# Pairs where the first must not be above the second.
ORDERED: Final = (
    ("api.page_size_default", "api.page_size_max"),
    ("gateway.send_queue_soft_bytes", "gateway.send_queue_hard_bytes"),
)

# (small, parts, large): the first must fit so many times into the last. What a run was last heard of may be one flush
# old, so a flush is short against everything that is counted from it; and a gap that moves no deadline must not eat
# most of one.
FITTING: Final = (
    *(
        ("run.life_flush_interval", 4, large)
        for large in (
            "run.delivery_timeout",
            "run.holder_grace",
            "run.cancel_timeout",
            "run.stall_after",
            "run.stale_after",
            "run.interrupt_grace",
            "service.gap",
        )
    ),
    ("service.gap", 2, "run.stale_after"),
)
FRACTIONS: Final[Mapping[int, str]] = MappingProxyType({2: "half", 4: "a quarter"})
