"""The tiles problem: which ops run together, in which tiles, and what stays in a scratchpad."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from ..checks import check_type
from ..errors import InstanceError
from ..fact import Fact
from ..graph import Graph
from ..lowering.tiling import lower_tiling, tiling_of_plan
from ..parameter import Parameter
from ..plan import Plan
from ..tile_rules import PLACE, POINTWISE_AT, RASTER, TileInstance, Tiling
from ..verifier.tiles import TilingVerdict, judge_tiling
from ..verifier.verdict import sorted_violations
from ..verifier.verify import verify
from .problem import Judgement, Problem


@dataclass(frozen=True)
class Tiles(Problem):
    """Ops in groups, tile by tile in a scratchpad, so that the latency is least.

    It is the question of the MLSys 2026 contest; `lowtide.models.verifier.tiles` states every rule. An answer
    is a `lowtide.models.tile_rules.Tiling`. The objective is in ticks, `scale` of them a time unit of the
    instance: bandwidth and depths of MatMuls divide it, so that every latency is a whole number.

    Parameters
    ----------
    shapes
        Ops and tensors with their shapes, and the machine.
    raster
        ``flush``: a tile begins with no slices where no order is stated. ``keep``: with the last ones.
    pointwise
        ``last``: a pointwise op is charged at the last reduction step of a tile. ``spread``: evenly.

    place
        ``apart``: outputs of a group of pointwise ops take space beside what it reads. ``shared``: they take
        the place of that.

    Raises
    ------
    InstanceError
        If a reading is none of these, or the instance breaks a rule of its format.

    Examples
    --------
    >>> import lowtide as lt
    >>> problem = lt.Tiles(lt.load_tiles("catalogue:mlsys2026/1"))
    >>> problem.scale, problem.shapes.capacity
    (2560, 60000)
    """

    shapes: TileInstance
    raster: str = "flush"
    pointwise: str = "last"
    place: str = "apart"
    name: ClassVar[str] = "tiles"
    unit: ClassVar[str] = "ticks"
    about: ClassVar[str] = "shapes"
    parameters: ClassVar[Mapping[str, Parameter]] = {
        "raster": Parameter("flush", "slices of the last tile, where no order is stated", choices=RASTER),
        "pointwise": Parameter(
            "last", "reduction step that a pointwise op is charged at", choices=POINTWISE_AT
        ),
        "place": Parameter("apart", "outputs of pointwise groups and what these read", choices=PLACE),
    }

    def __post_init__(self) -> None:
        check_type(
            self.shapes, TileInstance, "tiles, shapes", "a TileInstance, as lowtide.load_tiles returns"
        )
        self.shapes.check("tiles, shapes")
        for key, choices in (("raster", RASTER), ("pointwise", POINTWISE_AT), ("place", PLACE)):
            if getattr(self, key) not in choices:
                raise InstanceError(
                    f"tiles, {key}: found {getattr(self, key)!r}, expected one of {', '.join(choices)}"
                )

    @property
    def graph(self) -> Graph:
        """The ops and tensors."""
        return self.shapes.graph

    @property
    def scale(self) -> int:
        """Ticks of a time unit of the instance."""
        return self.shapes.scale

    def name_and_source(self) -> tuple[str, str | None]:
        """Return the instance's name and source."""
        return self.shapes.name, self.shapes.source

    def payload(self) -> dict[str, Any]:
        """Return all that is asked."""
        readings = {"raster": self.raster, "pointwise": self.pointwise, "place": self.place}
        return {"shapes": self.shapes.sha256, **readings}

    def read(self, item: object) -> Tiling:
        """Return the groups that a plan or an object in the contest's format stands for, or as they are.

        Raises
        ------
        InstanceError
            If it is none of these.
        """
        if isinstance(item, Plan):
            item = tiling_of_plan(self.graph, item)
        try:
            answer = Tiling.from_dict(item.to_dict() if isinstance(item, Tiling) else item)
        except (AttributeError, TypeError):
            raise InstanceError("found a Tiling of other things, expected groups of integers") from None
        ops, n = [i for group in answer.groups for i in group.ops], len(self.graph.ops)
        if not ops or max(ops) >= n:
            raise InstanceError(f"found ops {ops[:9]}, expected those of {n} in one group or more")
        return answer

    def verdict(
        self, answer: Tiling, *, raster: str | None = None, pointwise: str | None = None
    ) -> TilingVerdict:
        """Return what the verifier says of an answer, in the question's readings or others."""
        return judge_tiling(
            self.shapes,
            answer,
            raster=raster or self.raster,
            pointwise=pointwise or self.pointwise,
            place=self.place,
        )

    def evaluate(self, answer: Tiling) -> int:
        """Return the latency in ticks."""
        return self._ticks(self.verdict(answer))

    def _ticks(self, verdict: TilingVerdict) -> int:
        return int(sum(verdict.latencies, Fraction(0)) * self.scale)

    def judge(self, answer: Tiling) -> Judgement:
        """Have the plan of the runs verified, and latency and working sets recomputed."""
        plan = lower_tiling(self.graph, answer)
        verdict = verify(self.graph, plan)
        ruled = self.verdict(answer)
        if ruled.violations:
            verdict = replace(verdict, violations=sorted_violations([*verdict.violations, *ruled.violations]))
        objective = self._ticks(ruled) if verdict.valid else None
        return Judgement(objective=objective, verification=verdict, plan=plan)

    def facts(self, judgement: Judgement) -> list[Fact]:
        """Return the latency in time units by every reading, and each group."""
        assert judgement.plan is not None
        answer = self.read(judgement.plan)
        rows = []
        for raster in RASTER:
            for pointwise in POINTWISE_AT:
                other = self.verdict(answer, raster=raster, pointwise=pointwise)
                ticks = self._ticks(other)
                name = f"latency, raster={raster}, pointwise={pointwise}"
                rows.append(Fact(name, {"ticks": ticks}, latency_text(Fraction(ticks, self.scale))))
        ruled = self.verdict(answer)
        for s, group in enumerate(answer.groups):
            ops, granularity = "+".join(map(str, group.ops)), " x ".join(map(str, group.granularity))
            text = f"ops {ops} in tiles {granularity}: {latency_text(ruled.latencies[s])}"
            text += f", {ruled.held[s]:,} elements held, {ruled.moved[s]:,} moved"
            text += f", keeps {'+'.join(map(str, group.keep))}" if group.keep else ""
            ticks = int(ruled.latencies[s] * self.scale)
            value = {"ticks": ticks, "held": ruled.held[s], "moved": ruled.moved[s], "ops": list(group.ops)}
            rows.append(Fact(f"group {s}", value, text))
        return rows


def latency_text(latency: Fraction) -> str:
    """Return a latency as a decimal number, or with its remainder where it has none.

    Examples
    --------
    >>> latency_text(Fraction(32768, 10)), latency_text(Fraction(1, 3))
    ('3,276.8', '0 + 1/3')
    """
    for digits in range(13):
        if (10**digits) % latency.denominator == 0:
            whole, part = divmod(int(latency * 10**digits), 10**digits)
            return f"{whole:,}.{part:0{digits}}" if digits else f"{whole:,}"
    return f"{int(latency):,} + {latency - int(latency)}"
