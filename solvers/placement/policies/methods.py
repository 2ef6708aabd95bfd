"""The rows of the published systems among the methods of `placement`."""

from __future__ import annotations

from ...method import BOUND, Basis, Method, Option

SIMULATOR = (".placement.simulator.simulator_kernel",)
_DEGREE = Option("degree", 8, "ops that the prefetch is ahead")
_OFFLOAD = Option(
    "offload", "dynamic", "all, conv, or dynamic: the first that fits", choices=("all", "conv", "dynamic")
)
_ALGORITHMS = Option(
    "algorithms",
    "fastest",
    "of ops with several modes, where offload is all or conv",
    choices=("fastest", "least"),
)
_BARRIER = Option("barrier", True, "0: no layer waits for copies, as in vDNN++")
_CONTROL = (
    Option("rule", "chain", "how control ops are found", choices=("chain", "direct")),
    Option("low", 1, "least distance of a control op to the use"),
    Option("high", 10_000, "greatest distance of a control op to the use"),
    Option("tensors", 0, "how many tensors are swapped; 0: all", least=0),
    Option("fuse", False, "1: one swap-in for all uses of the backward pass"),
    Option("branch", 0, "forward uses more ops apart than this are swapped between too; 0: none", least=0),
)
_BUCKET = Option("bucket", 1000, "MB (10^6 bytes) of gradients on the GPU at once")
_SCORES = (
    Option(
        "score",
        str,
        "doa, aoa, wdoa or swdoa (default: the best of the four and of their sums)",
        choices=("doa", "aoa", "wdoa", "swdoa"),
    ),
    Option("trials", 16, "sums of the four scores with random weights that are tried", least=0),
    Option("smallest", 0, "bytes that a tensor that leaves has at least", least=0),
    Option("shortest", 0, "ns that a tensor that leaves lives at least", least=0),
)
_RESTS = (
    ("weights", "default: the best of steps of 5"),
    ("cache", "tensors of kind state; default: the best of quarters"),
    ("states", "all others; default: the better of 0 and 100"),
)


def _policy(
    name: str,
    summary: str,
    source: str,
    *options: Option,
    basis: Basis,
    abstracted: str,
    freedoms: tuple[str, ...] = (),
) -> Method:
    """Return a policy that the simulator of placements carries out."""
    return Method(
        name,
        f".placement.policies.{name.replace('-', '_')}:solve_{name.replace('-', '_')}",
        f"policy: {summary}",
        proves=BOUND,
        source=source,
        basis=basis,
        abstracted=abstracted,
        options=(
            *options,
            Option("strict", False, "1: no emergency evictions, what does not fit has no plan"),
            Option(
                "chunk",
                int,
                "largest copy in MiB (default: whole tensors, or 16 for policies that move pages)",
            ),
        ),
        kernels=SIMULATOR,
        freedoms=freedoms,
    )


POLICIES = (
    _policy(
        "demand-lru",
        "fetch on demand, evict the least recently used; pages",
        "unified memory; as in Zhang et al., G10, MICRO 2023",
        basis=Basis.TEXT,
        abstracted="A fault costs no more than the channel's latency; pages are chunks of 16 MiB that leave "
        "tensor by tensor; the oldest use leaves first, where G10's artifact takes the oldest arrival.",
    ),
    _policy(
        "deepum",
        "prefetch the tensors of the op eight ahead, evict the least recently used; pages",
        "Jung et al., DeepUM, ASPLOS 2023; as emulated in G10's artifact",
        _DEGREE,
        Option(
            "iterations",
            int,
            "before the one that counts, which fill the tables of correlations (default: what ops use is "
            "known)",
            least=0,
        ),
        basis=Basis.CODE,
        abstracted="The reading is G10's, but the oldest use leaves first, not the oldest arrival; the sizes "
        "of its tables are left out, and a fault costs no more than the channel's latency.",
    ),
    _policy(
        "belady",
        "evict what is used furthest ahead, swap in as early as is safe",
        "Huang et al., SwapAdvisor, ASPLOS 2020, section 4.2, one pool",
        basis=Basis.OURS,
        abstracted="It is the planner of `swapadvisor` on one pool of bytes, without its search over orders "
        "and pools.",
    ),
    _policy(
        "swapadvisor",
        "pools of slots, and the order if it is free, by a genetic search; evict what is used furthest "
        "ahead in its pool",
        "Huang et al., SwapAdvisor, ASPLOS 2020",
        Option("population", 12, "memory plans that live on"),
        Option("generations", 10, "of the search", least=0),
        basis=Basis.TEXT,
        abstracted="Sizes of populations, probabilities and repairs are inferred; the order is searched only "
        "with `order=free`; a tensor may come before its slot is free.",
        freedoms=("order=free",),
    ),
    _policy(
        "vdnn",
        "offload activations layer by layer, both streams wait for each other",
        "Rhu et al., vDNN, MICRO 2016",
        _OFFLOAD,
        _ALGORITHMS,
        _BARRIER,
        basis=Basis.CODE,
        abstracted="The code is that of vDNN++; layers are found by what leaves and returns; profiles of "
        "cuDNN and the pool are left out.",
    ),
    _policy(
        "chen-meng",
        "offload the longest-lived activations until the rest fits, return just in time",
        "Meng et al., ML Systems Workshop at NIPS 2017",
        Option("short", 50, "percent of the activations, the shortest-lived, that stay", least=0, most=100),
        basis=Basis.INFERRED,
        abstracted="Attention scores, which it computes again, are missing; the threshold between lifetimes "
        "and the starts of returns are inferred.",
    ),
    _policy(
        "tflms-v1",
        "offload all activations, return behind control ops of the graph",
        "Le et al., TFLMS, 2018, version 1",
        *_CONTROL,
        basis=Basis.CODE,
        abstracted="Levels of the graph are ops of the reference order; of several control ops, of which the "
        "code takes any, it is the last.",
    ),
    _policy(
        "tflms-v2",
        "offload for far consumers, distances found by searches on a count of bytes",
        "Le et al., TFLMS, 2018, version 2",
        basis=Basis.CODE,
        abstracted="Levels of the graph are ops of the reference order; tensors of rank 0 and 1, which it "
        "never swaps, are swapped; what waiting counts is inferred.",
    ),
    _policy(
        "layrub",
        "offload every layer's activations, return one layer ahead",
        "Jin et al., Layrub, TACO 2018",
        basis=Basis.TEXT,
        abstracted="Its order of gradients, those of weights before those of activations, and the region "
        "that layers take in turn are missing; compression is the graph's.",
    ),
    _policy(
        "gtbm",
        "offload all activations, return two convolutions ahead",
        "probably Yang and Cheng, HPDC 2020, from notes",
        Option("window", 2, "convolutions that the return is ahead"),
        basis=Basis.INFERRED,
        abstracted="The three regions of its pool are missing; which paper it is, that no layer waits for a "
        "copy, and when nothing moves are inferred.",
    ),
    _policy(
        "modnn",
        "offload the fewest bytes that make an allocation in a best-fit pool succeed",
        "Chen et al., moDNN, DATE 2018",
        basis=Basis.TEXT,
        abstracted="Sub-batches, and gradients that go to the CPU at once, are missing; the pool decides who "
        "leaves, not where it lies; ties are inferred.",
    ),
    _policy(
        "dragon",
        "fetch on demand with read-ahead by address, write back on eviction; pages",
        "Markthub et al., DRAGON, SC 2018",
        Option("ahead", 16, "MiB behind an accessed tensor that are asked for", least=0),
        basis=Basis.TEXT,
        abstracted="A batch of faults costs no more than the channel's latency, and the mapping of files is "
        "left out: only read-ahead tells it from `demand-lru`.",
    ),
    _policy(
        "oc-dnn",
        "fetch on demand, weights one op ahead, evict the least recently used; pages",
        "Awan et al., OC-DNN, HiPC 2018",
        Option("weights", True, "0: weights are fetched on demand, too"),
        basis=Basis.TEXT,
        abstracted="A fault costs no more than the channel's latency, so hints avoid none: only weights that "
        "come one op ahead, which is inferred, tell it from `demand-lru`.",
    ),
    _policy(
        "sentinel",
        "a reserve for short-lived tensors, others move at bounds of intervals of layers",
        "Ren et al., Sentinel, HPCA 2021",
        basis=Basis.TEXT,
        abstracted="Profiling by page faults, shared pages and slow memory that ops use in place are "
        "missing; the rules for which lengths of intervals are tried are inferred.",
    ),
    _policy(
        "flashneuron",
        "offload a prefix of the forward tensors directly to the SSD",
        "Bae et al., FlashNeuron, FAST 2021; as modelled in G10's artifact",
        basis=Basis.CODE,
        abstracted="The reading is G10's; the second phase, which chooses by how well tensors compress, is "
        "missing; compression is the graph's; pages are bytes.",
    ),
    _policy(
        "g10",
        "the most useful absences first, booked in a ledger of bandwidths; pages",
        "Zhang et al., G10, MICRO 2023, and its artifact",
        basis=Basis.CODE,
        abstracted="Costs of faults, batches and allocations are left out; an op starts when all its "
        "operands are there; at run time the oldest use leaves first, not the oldest arrival.",
    ),
    _policy(
        "flexgen",
        "fractions of weights, caches and hidden states rest on the GPU, the others come layer by layer",
        "Sheng et al., FlexGen, ICML 2023",
        *(
            Option(name, float, f"percent of them on the GPU ({tried})", least=0, most=100)
            for name, tried in _RESTS
        ),
        Option("early", False, "ask all back as early as memory permits, not by layers as FlexGen"),
        basis=Basis.TEXT,
        abstracted="No tensor is divided, where it divides each of the caches and hidden states.",
    ),
    _policy(
        "autoswap",
        "absences around the peak by four scores and their sums",
        "Zhang et al., SmartPool and AutoSwap, 2019",
        *_SCORES,
        basis=Basis.CODE,
        abstracted="The weights of its scores are drawn from a seed, not tuned by Bayesian optimization; "
        "returns start at beginnings of ops.",
    ),
    _policy(
        "deeptm",
        "where room lacks, the coldest by four features leave, swap in as early as is safe",
        "DeepTM, IEEE TPDS 2024, from notes; its greedy target, nothing is learned",
        Option("trials", 8, "random weights of the features that are tried", least=0),
        basis=Basis.OURS,
        abstracted="Nothing is learned: where room lacks the coldest leave, by four features that are "
        "inferred; pages, their order by reuse, merged migrations and memory that ops use in "
        "place are missing.",
    ),
    _policy(
        "tmof-online",
        "the largest reuse distances leave until all fits; GPUs on a shared link take turns",
        "Lin et al., TMOF, HPCA 2023, as inferred",
        Option(
            "share",
            "both",
            "how GPUs share a host link: oblivious, disjoint, bidirectional, both",
            choices=("oblivious", "disjoint", "bidirectional", "both"),
        ),
        Option("ahead", 1, "times of a copy that a tensor is asked back before its access"),
        basis=Basis.INFERRED,
        abstracted="Its rules are inferred from the abstract and notes; what it decides among GPUs has no "
        "effect on one.",
    ),
    _policy(
        "capuchin",
        "swaps while they are hidden, then whatever costs less: a swap, or runs again with --recompute",
        "Peng et al., Capuchin, ASPLOS 2020, from summaries",
        basis=Basis.INFERRED,
        abstracted="Its text was not at hand: the comparison of overheads per byte and the choice among "
        "three triggers are inferred; times are the graph's, not measured.",
        freedoms=("recompute",),
    ),
    _policy(
        "superneurons",
        "offload what convolutions make; with --recompute the ops between them run again",
        "Wang et al., SuperNeurons, PPoPP 2018, from its abstract and code",
        Option(
            "recomputation",
            "cost-aware",
            "what runs again between two checkpoints: once (speed), for each op that needs it (memory), or "
            "by the segment's bytes (cost-aware)",
            choices=("cost-aware", "speed", "memory"),
        ),
        basis=Basis.CODE,
        abstracted="Layers are ops; three modes that are tried in turn stand for its tensor cache; the "
        "choice of workspaces is left to modes.",
        freedoms=("recompute",),
    ),
    Method(
        "zero-offload",
        ".placement.policies.zero_offload:solve_zero_offload",
        "policy: parameters on the GPU, gradients leave in buckets, the host's processor updates",
        proves=BOUND,
        source="Ren et al., ZeRO-Offload, ATC 2021",
        basis=Basis.TEXT,
        abstracted="Many GPUs are left out.",
        options=(_BUCKET,),
    ),
    Method(
        "zero-infinity",
        ".placement.policies.zero_infinity:solve_zero_infinity",
        "policy: as zero-offload, but parameters and states rest on host or drive and come when used",
        proves=BOUND,
        source="Rajbhandari et al., ZeRO-Infinity, SC 2021; rules of DeepSpeed's stage 3",
        basis=Basis.CODE,
        abstracted="Many GPUs, and activations and gradients that go to host and drive, are left out; that "
        "a module is an op is inferred.",
        options=(
            _BUCKET,
            Option(
                "home",
                str,
                "where they rest: host or drive (default: the drive if there is one)",
                choices=("host", "drive"),
            ),
            Option("prefetch", 100, "MB of parameters that are fetched at once ahead of their ops", least=0),
            Option("live", 2000, "MB of parameters on the GPU at once", least=0),
            Option("reuse", 2000, "MB of others after which a parameter that is used again stays", least=0),
            Option("buffer", 1000, "MB of parameters that the host has from the drive", least=0),
            Option("group", 2000, "MB of parameters that are updated together"),
            Option("persistent", 200_000, "bytes of a parameter below which it stays on the GPU", least=0),
        ),
    ),
    Method(
        "first-touch",
        ".placement.policies.first_touch:solve_first_touch",
        "policy: tensors stay where they first found room, fast or slow memory",
        proves=BOUND,
        source="NUMA first touch, the baseline of Hildebrand et al., AutoTM, ASPLOS 2020",
        basis=Basis.CODE,
        abstracted="Pages and the fragmentation of the pool are left out: tensors are placed whole.",
    ),
)
