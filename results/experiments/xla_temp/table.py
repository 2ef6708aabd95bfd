"""Temporary memory of functions that JAX compiles: XLA's addresses and order, and the best ones.

Each function is compiled for the CPU by the installed jax, which dumps XLA's files into a folder. One thread.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lowtide as lt

from ...tables.spec import RIGHT, Column, Fields, Row, TableSpec
from ..running import Case

SECONDS = 20
"""Time limit of each of both problems, in seconds."""

WIDTH = 64
"""Features of the values of all functions, chosen so that each compiles within seconds."""


def _mlp(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(weights: Any, x: Any) -> Any:
        for w in weights:
            x = jax.nn.gelu(x @ w)
        return x.sum()

    return jax.grad(loss), ([jnp.zeros((WIDTH, WIDTH))] * 8, jnp.zeros((512, WIDTH)))


def _block(jnp: Any, jax: Any, p: Any, x: Any) -> Any:
    batch, length, width = x.shape
    heads = [(x @ p[n]).reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3) for n in "qkv"]
    scores = jax.nn.softmax(heads[0] @ heads[1].swapaxes(-1, -2) / 4.0)
    x = x + (scores @ heads[2]).transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["o"]
    return x + jax.nn.gelu(x @ p["a"]) @ p["b"]


def _transformer_data(jnp: Any, layers: int) -> tuple[Any, Any]:
    sizes = {**dict.fromkeys("qkvo", (WIDTH, WIDTH)), "a": (WIDTH, 4 * WIDTH), "b": (4 * WIDTH, WIDTH)}
    return [{n: jnp.zeros(size) for n, size in sizes.items()}] * layers, jnp.zeros((4, 64, WIDTH))


def _transformer(jnp: Any, jax: Any, *, train: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(layers: Any, x: Any) -> Any:
        for p in layers:
            x = _block(jnp, jax, p, x)
        return (x**2).mean()

    return jax.grad(loss) if train else loss, _transformer_data(jnp, 3)


def _scanned(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(layers: Any, x: Any) -> Any:
        def body(x: Any, p: Any) -> Any:
            return _block(jnp, jax, p, x), None

        return (jax.lax.scan(jax.checkpoint(body), x, layers)[0] ** 2).mean()

    layers, x = _transformer_data(jnp, 4)
    return jax.grad(loss), (jax.tree.map(lambda *a: jnp.stack(a), *layers), x)


def _convolutions(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    names = ("NHWC", "HWIO", "NHWC")

    def loss(kernels: Any, x: Any) -> Any:
        for w in kernels:
            x = jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=names))
        return x.mean()

    kernels = [jnp.zeros((3, 3, 3 if k == 0 else 16, 16)) for k in range(4)]
    return jax.grad(loss), (kernels, jnp.zeros((4, 24, 24, 3)))


def _recurrent(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def loss(w: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, h

        return (jax.lax.scan(body, jnp.zeros(xs.shape[1:]), xs)[1] ** 2).mean()

    return jax.grad(loss), (jnp.zeros((WIDTH, WIDTH)), jnp.zeros((16, 8, WIDTH)))


def _inception(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def branches(weights: Any, x: Any) -> Any:
        y = jnp.concatenate([jax.nn.relu(x @ w) for w in weights], -1)
        parts = [jnp.tanh(y[:, k * WIDTH : (k + 1) * WIDTH] @ w) for k, w in enumerate(weights)]
        return jnp.concatenate(parts, -1).sum()

    return branches, ([jnp.zeros((WIDTH, 32 * (k + 1))) for k in range(4)], jnp.zeros((128, WIDTH)))


def _branch(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def chosen(p: Any, x: Any) -> Any:
        return jax.lax.cond(p > 0, lambda x: jnp.sin(x @ x.T) @ x, jnp.cos, x).sum()

    return chosen, (jnp.float32(1), jnp.zeros((WIDTH, WIDTH // 2)))


def _iterated(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def power(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 1, jnp.tanh(c[1] @ c[1])), (0, x))[1]

    return power, (jnp.zeros((WIDTH, WIDTH)),)


def _decomposed(jnp: Any, jax: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    def factor(x: Any) -> Any:
        return jnp.linalg.cholesky(x @ x.T + jnp.eye(WIDTH)).sum() + jnp.sort(x, axis=-1)[:, 0].sum()

    return factor, (jnp.zeros((WIDTH, WIDTH)),)


FUNCTIONS: dict[str, Callable[[Any, Any], tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "MLP, gradient": _mlp,
    "transformer": partial(_transformer, train=False),
    "transformer, gradient": partial(_transformer, train=True),
    "scanned transformer, checkpointed gradient": _scanned,
    "convolutions, gradient": _convolutions,
    "recurrent network, gradient": _recurrent,
    "inception": _inception,
    "conditional": _branch,
    "while": _iterated,
    "Cholesky and sort": _decomposed,
}
"""Functions by name; each makes the function and its arguments of ``jax.numpy`` and ``jax``."""


def compiled(name: str, folder: Path) -> tuple[Any, Path]:
    """Compile a function; return it, and its buffer assignment among XLA's files in a folder."""
    import jax

    function, arguments = FUNCTIONS[name](jax.numpy, jax)

    def main(*args: Any) -> Any:
        return function(*args)

    options = {"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True}
    program = jax.jit(main).lower(*arguments).compile(compiler_options=options)
    (path,) = folder.glob("*jit_main*-buffer-assignment.txt")
    return program, path


def cases() -> Iterator[Case]:
    """Yield the functions."""
    for name in FUNCTIONS:
        yield Case(name, partial(rows_of, name))


def rows_of(name: str) -> Iterator[Row]:
    """Yield the row of a function."""
    import jax

    with tempfile.TemporaryDirectory() as folder:
        program, path = compiled(name, Path(folder))
        buffers = lt.load_buffers(path)
        graph = lt.load(str(path).replace("-buffer-assignment", ""))
    temporary = program.memory_analysis().temp_size_in_bytes
    addresses = lt.solve(lt.Offsets(buffers), threads=1, time_limit=SECONDS)
    order = lt.solve(lt.Peak(graph), threads=1, time_limit=SECONDS)
    yield {
        "function": name,
        "jax": jax.__version__,
        "buffers": len(buffers.buffers),
        "xla": temporary,
        "least": addresses.objective,
        "bound": addresses.bound,
        "status": str(addresses.status),
        "ops": len(graph.ops),
        "order_peak": lt.solve(lt.Peak(graph), "reference", threads=1).objective,
        "least_peak": order.objective,
        "peak_bound": order.bound,
        "peak_status": str(order.status),
    }


def text(rows: list[Row]) -> Fields:
    """Return the fields of the text."""
    return {
        "table": TABLE.of(rows),
        "optimal": sum(row["status"] == "optimal" for row in rows),
        "lower": sum(row["least"] < row["xla"] for row in rows),
        "orders": sum(row["least_peak"] < row["order_peak"] for row in rows),
        "jax": ", ".join(sorted({str(row["jax"]) for row in rows})),
    }


def _share(row: Row, less: str, more: str) -> str:
    return f"{1 - row[less] / row[more]:.1%}"


TABLE = TableSpec(
    (
        Column("function"),
        Column("buffers", kind=",d"),
        Column("XLA, bytes", lambda row: f"{row['xla']:,d}", RIGHT),
        Column("least, bytes", lambda row: f"{row['least']:,d}", RIGHT),
        Column("less", lambda row: _share(row, "least", "xla"), RIGHT),
        Column("status"),
        Column("ops", kind=",d"),
        Column("peak in XLA's order", lambda row: f"{row['order_peak']:,d}", RIGHT),
        Column("least peak", lambda row: f"{row['least_peak']:,d}", RIGHT),
        Column("less", lambda row: _share(row, "least_peak", "order_peak"), RIGHT),
        Column("status", lambda row: row["peak_status"]),
    )
)
