"""Health, metrics, keys and the contract itself."""

from __future__ import annotations

from db import Answer
from generated.parameters import (
    GetAsyncApiParameters,
    GetHealthParameters,
    GetJwksParameters,
    GetMetricsParameters,
    GetOpenApiParameters,
    GetReadinessParameters,
)
from handlers.context import Context


async def get_health(context: Context, parameters: GetHealthParameters) -> Answer:
    """The process is alive: it answers."""
    return Answer("ok", b'{"status":"ok"}')


async def get_readiness(context: Context, parameters: GetReadinessParameters) -> Answer:
    """Whether the process can do its work."""
    return await context.service.readiness()


async def get_metrics(context: Context, parameters: GetMetricsParameters) -> Answer:
    """Metrics in the Prometheus text format."""
    return await context.service.metrics()


async def get_open_api(context: Context, parameters: GetOpenApiParameters) -> Answer:
    """The REST contract."""
    return context.service.document("openapi")


async def get_async_api(context: Context, parameters: GetAsyncApiParameters) -> Answer:
    """The gateway's contract."""
    return context.service.document("asyncapi")


async def get_jwks(context: Context, parameters: GetJwksParameters) -> Answer:
    """Public keys of invocation tokens."""
    return context.service.keys()
