"""The methods of problem `recompute` for chains, in the order in which they are listed."""

from __future__ import annotations

from ..method import Method

CHAIN_KERNELS = (
    ".recompute.chains.disk_revolve",
    ".recompute.chains.h_revolve",
    ".recompute.chains.hetero",
    ".recompute.chains.mixed",
    ".recompute.chains.revolve",
)

CHAIN_METHODS = (
    Method(
        name="recompute-all",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_recompute_all",
        summary="plain chains: nothing kept but x_0, every backward after a sweep of its own",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="hybrid",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_hybrid",
        summary="plain chains: as many equal segments as slots, each computed again for every backward",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="sqrt",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_sqrt",
        summary="plain chains: sqrt(n) segments, each computed again once and stored",
        source="Chen et al. 2016, section 4",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="revolve",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_revolve",
        summary="plain chains: least forwards for the slots beside the buffers in work",
        source="Griewank and Walther, ACM TOMS 26, 2000",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="disk-revolve",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_disk_revolve",
        summary="uniform plain chains: slots in memory, and any number on the second tier",
        source="Aupy et al., SIAM J. Sci. Comput. 38, 2016",
        options=(("reads", "of what the second tier keeps: many (default), or once as published"),),
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="periodic-disk-revolve",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_periodic_disk_revolve",
        summary="uniform plain chains: the same with equal distances between what the second tier keeps",
        source="after Aupy and Herrmann, Optim. Methods Softw. 32, 2017",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="h-revolve",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_h_revolve",
        summary="uniform plain chains: slots in any number of tiers with costs of writing and reading",
        source="Herrmann and Pallez, ACM TOMS 46, 2020",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="mixed",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_mixed",
        summary="taped chains: slots keep states or what backwards need, of one size",
        source="Maddison, J. Comput. Sci. 82, 2024",
        kernels=CHAIN_KERNELS,
    ),
    Method(
        name="hetero-chain",
        problem="recompute",
        run=".recompute.chains.methods_of_chains:solve_hetero_chain",
        summary="plain and taped chains of any sizes and times: best persistent schedule",
        source="Beaumont et al. 2019 (rotor)",
        options=(("memory-slots", "that are distinguished (default 500); sizes are rounded up to them"),),
        kernels=CHAIN_KERNELS,
    ),
)
