"""What a run is made of: every key, once, with its type and what it means.

`records/run.py` checks runs by these types, and a test holds `workflow/schemas/run.schema.yaml` and
docs/records.md to them. Durations end in `_s` or `_ns`, sizes in `_bytes`. What cannot be known is
None, with its reason in the nearest `unknown`, under the key's dotted name. Keys that older records
lack, or that only some runs have, are NotRequired.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from gemmgrid.records.shape import AtLeast, Pattern

Moment = Annotated[str, Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}Z")]
"""In UTC, with microseconds."""
Name = Annotated[str, Pattern(r"[a-z0-9][a-z0-9._-]{0,63}")]
Natural = Annotated[int, AtLeast(0)]
Positive = Annotated[int, AtLeast(1)]
Deploy = Literal["venv", "conda", "none"]
Status = Literal[
    "ok",
    "wrong",
    "implausible",
    "unsupported",
    "excluded",
    "infeasible",
    "oom",
    "timeout",
    "crashed",
    "env-failed",
    "lost",
]
Unknown = dict[str, str]
"""Dotted name of what is None → why."""


class Tool(TypedDict, total=False):
    """The gemmgrid that measured."""

    version: str
    commit: str | None
    dirty: bool | None  # whether the checkout held changes of its own


class CellKeys(TypedDict):
    """A cell, as `Cell.to_json` writes it."""

    name: str
    routine: Literal["dot", "gemv", "gemm"]
    dtype: Literal["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
    shape: list[Positive]
    threads: Positive
    options: dict[str, Any]  # those that differ from their defaults
    protocol: Positive


class Failure(TypedDict):
    """How a process ended that did not succeed."""

    stage: str
    exit_code: int | None
    signal: str | None
    stderr_tail: str
    stdout_tail: NotRequired[str]


class Host(TypedDict):
    """The stable facts about the hardware; its id is a hash of them, but for the last two."""

    id: str | None  # None for a lost job
    architecture: NotRequired[str | None]
    vendor: NotRequired[str | None]
    model: NotRequired[str | None]
    family: NotRequired[int | None]
    model_number: NotRequired[int | None]
    stepping: NotRequired[int | None]
    sockets: NotRequired[int | None]
    cores: NotRequired[int | None]
    performance_cores: NotRequired[int | None]
    efficiency_cores: NotRequired[int | None]
    smt: NotRequired[bool | None]
    numa: NotRequired[int | None]  # nodes
    isa: NotRequired[list[str] | None]  # vector extensions
    memory_gib: NotRequired[float | None]
    virtualised: NotRequired[bool | None]
    last_level_caches: NotRequired[list[dict[str, Any]] | None]  # not in the hash, as cards
    cards: NotRequired[list[str] | None]  # GPUs that are built in: vendor:model on the PCI bus


class Gpu(TypedDict):
    """The GPU that did the work."""

    id: NotRequired[str | None]
    name: NotRequired[str | None]
    driver: NotRequired[str | None]


class Slurm(TypedDict):
    """The job that measured, as its node told."""

    job_id: str | None  # of all rounds' jobs, as `12, 13`
    node: str | None
    partition: str | None
    features: list[str] | None  # the node's
    cluster: NotRequired[str | None]
    account: NotRequired[str | None]
    qos: NotRequired[str | None]
    exclusive: bool | None  # whether no other job could run on the node
    cpus_on_node: NotRequired[Natural | None]
    cpus_allocated: NotRequired[Natural | None]
    memory_mb: NotRequired[Annotated[float, AtLeast(0)] | None]  # allocated on the node
    gres: NotRequired[str | None]  # generic resources of the job, as gpu:h200:1
    restarts: NotRequired[Natural | None]  # how often the job was requeued
    affinity: NotRequired[list[int] | None]  # CPUs that it was bound to
    memory_limit_bytes: NotRequired[Natural | None]
    unknown: Unknown


class Promise(TypedDict):
    """What config/machines.yaml promises of the machine."""

    cpus: NotRequired[Natural | None]
    gpu: NotRequired[bool | None]
    platform: NotRequired[str | None]
    broken: list[str]  # what of it does not hold, a sentence each


class LoadedLibrary(TypedDict):
    """The BLAS as loaded, as far as its change can move the number."""

    name: str | None
    version: str | None
    core: str | None
    threading: str | None
    interface: str | None
    file: str | None  # relative to the environment
    fingerprint: str | None  # of the file's content


class BackendContext(TypedDict):
    deploy: Deploy
    adapter: str
    options: dict[str, Any]
    protocol: int
    lock: str | None  # hash of what the environment's file asks for
    python: str | None
    packages: dict[str, str] | None  # name → version and build
    variables: dict[str, str]  # set for the measured processes
    library: LoadedLibrary | None
    precision: dict[str, Any]  # knobs as the process saw them
    unknown: NotRequired[Unknown]


class Context(TypedDict):
    """What can change on the machine and move the number; each part with its hash."""

    host: dict[str, Any]  # kernel, microcode, libc, governor, mitigations …
    device: dict[str, Any] | None  # the GPU's driver and settings
    backend: BackendContext
    host_hash: str
    device_hash: str | None
    backend_hash: str


class Package(TypedDict):
    name: str
    version: str | None
    build: str | None


class Environment(TypedDict):
    """Where it ran."""

    deploy: Deploy
    name: str
    prefix: str | None
    python: str | None
    packages: list[Package]
    lock_hash: NotRequired[str | None]
    variables: dict[str, str]  # set for the measured processes
    dropped_variables: dict[str, str]  # inherited and left out of them


class Library(TypedDict):
    """The BLAS behind the call."""

    name: NotRequired[str | None]
    family: NotRequired[str | None]
    file: NotRequired[str | None]
    version: NotRequired[str | None]
    core: NotRequired[str | None]
    threading: NotRequired[str | None]
    interface: NotRequired[str | None]
    unknown: NotRequired[Unknown]
    note: NotRequired[str | None]
    others: NotRequired[list[Any]]  # further BLAS libraries in the process


class Counters(TypedDict):
    """CPU seconds, to be subtracted between two readings."""

    monotonic_s: float
    own_s: float
    busy_s: float | None
    steal_s: float | None
    cpus: int | None


class GpuConditions(TypedDict, total=False):
    at: Moment
    sm_mhz: float | None
    mem_mhz: float | None
    power_w: float | None
    temperature_c: float | None
    throttle_reasons: list[str] | None
    utilisation: float | None
    power_cap_w: float | None
    energy_j: float | None
    free_bytes: int | None
    other_processes: int | None
    unknown: Unknown


class Conditions(TypedDict, total=False):
    """The state of the machine at one moment."""

    at: Moment
    load_1m: float | None
    steal: float | None  # share of CPU time that the hypervisor took since the reading before
    others_cpus: float | None  # CPUs that other processes used since then
    cpu_mhz: list[float] | None  # of some CPUs
    governor: str | None
    turbo: bool | None
    smt: bool | None
    thp: str | None
    numa_balancing: int | None
    temperature_c: float | None
    power_source: str | None
    free_bytes: int | None
    throttle_events: int | None
    quota_cpus: float | None
    quota_throttled_s: float | None
    allowed_cpus: int | None
    shared_node: bool | None
    gpu: GpuConditions | None
    counters: Counters
    unknown: Unknown


class Around(TypedDict):
    """The conditions before and after."""

    before: Conditions | None
    after: Conditions | None
    during: NotRequired[list[GpuConditions | None]]


class Timer(TypedDict):
    name: str
    resolution_ns: float
    overhead_ns: float


class Operand(TypedDict):
    address: str
    alignment: int
    strides: list[int] | None


class Operands(TypedDict, total=False):
    """Where the operands lie, as the library has them."""

    seed: int
    A: Operand | None
    B: Operand | None
    C: Operand | None
    sets: int  # of equal operands that the calls rotate over
    first_touch: str  # who wrote to them first
    unchanged: bool  # after the timing they were what their seed gives
    unknown: Unknown


class Identity(TypedDict, total=False):
    """What the process says that it loaded."""

    packages: dict[str, str | None]
    library: Library | None
    precision: dict[str, Any]
    device: dict[str, Any] | None
    python: str


class Warmup(TypedDict):
    seconds: float
    calls: int
    steady: bool


class Samples(TypedDict):
    """Batches of `inner` calls, in the order taken."""

    at_ns: list[int]  # start of each, from the first
    elapsed_ns: list[int]
    device_ns: list[int] | None  # where the device has a clock of its own


class Selftest(TypedDict):
    """Twice the work takes about twice the time."""

    ratio: float | None
    inner: int
    ok: bool
    reason: str | None


class Leftover(TypedDict):
    """No work is left behind the fence."""

    seconds: float
    ok: bool
    reason: str | None


class Threads(TypedDict):
    asked: int
    library: int | None  # what the library says
    os: NotRequired[int | None]  # threads that the process has
    burned: float | None  # CPU seconds a second
    waited: NotRequired[float | None]  # threads that waited for a CPU
    seen: int | None  # threads that worked
    affinity_before: list[int] | None
    affinity_after: list[int] | None
    quota: NotRequired[float | None]  # CPUs
    window_s: NotRequired[float | None]
    unknown: NotRequired[Unknown]


class Events(TypedDict):
    """What the kernel counted while the samples were taken, of all threads together."""

    cycles: Natural | None  # outside the kernel
    task_clock_s: float | None  # CPU time
    switches: Natural | None  # from one thread to another
    preempted: Natural | None  # those of them that a thread did not ask for
    migrations: int | None  # of a thread to another CPU
    unknown: Unknown


class Verdict(TypedDict):
    """The result compared with float64."""

    ok: bool
    rel_error: float | None
    bound: float
    method: str
    rows: int  # checked exactly
    miss_probability: float
    problem: Literal["nan", "inf", "zeros", "error"] | None
    detail: NotRequired[str | None]
    precision: NotRequired[str | None]


class Verify(TypedDict):
    """Before and after the timing, and with fresh operands."""

    before: Verdict | None
    after: Verdict | None
    fresh: Verdict | None


class Result(TypedDict):
    """The result that the timed calls left."""

    digest: str  # of its bits
    componentwise: float | None  # largest |C - Ĉ| / (|A||B|), in units of the dtype's roundoff
    elements: Natural  # that were looked at for it


class Trip(TypedDict):
    """A cache line from one CPU to another and back."""

    cpus: list[Natural]  # the two
    ns: list[float]  # mean time of a trip, each repetition


class Arithmetic(TypedDict):
    """Operations per second of multiply-adds on all CPUs at once, each repetition."""

    all: list[float]  # of all CPUs together
    slowest: list[float]  # of the slowest of them


class Probed(TypedDict):
    """How the CPUs were at one moment; a machine's states are found from the trips."""

    trips: list[Trip]  # one a pair; none for one thread
    float32: Arithmetic
    float64: Arithmetic


class ProbedMemory(TypedDict):
    """What all CPUs together move past the caches, in bytes per second, each pass."""

    bytes: Positive  # size of the arrays
    triad: list[float]  # a = b + s c
    read: list[float]  # reading only


class Probe(TypedDict):
    """How the CPUs were right around the samples."""

    cpus: list[Natural] | None  # where the process's busiest threads ran last
    vectors: Literal["avx512", "avx2", "sse2", "neon"] | None  # of the arithmetic loops
    before: Probed | None
    after: Probed | None
    memory: ProbedMemory | None
    unknown: Unknown


class State(TypedDict):
    """How near each other the CPUs of a machine have been; records/states.py finds it."""

    name: Literal["near", "far", "farther"]
    from_ns: float  # its shortest trip
    to_ns: float  # its longest
    count: Positive  # trips that showed it


class Invocation(TypedDict):
    """One fresh process; of one that ended early, what it knew by then."""

    index: Natural
    round: Positive
    started_at: Moment
    status: Status
    reason: str | None
    flags: list[str]
    stage: str
    import_s: NotRequired[float]
    timer: NotRequired[Timer]
    setup_s: NotRequired[float]
    operands: NotRequired[Operands]
    expression: NotRequired[str]
    expression_names: NotRequired[str | None]
    first_call_s: NotRequired[float]
    identity: NotRequired[Identity]
    verify: NotRequired[Verify]
    result: NotRequired[Result]
    warmup: NotRequired[Warmup]
    inner: NotRequired[Positive]  # calls in each sample
    selftest: NotRequired[Selftest]
    call_overhead_ns: NotRequired[float | None]
    against_float32: NotRequired[float | None]  # how many times slower
    threads: NotRequired[Threads]
    samples: NotRequired[Samples]
    counters: NotRequired[Events]
    stop: NotRequired[Literal["interval", "plateau", "time-limit", "max-samples", "budget"]]
    probe: NotRequired[Probe]
    aside: NotRequired[Literal["far", "farther", "changed", "disturbed"] | None]  # its state, where
    # the process does not count for it
    effective_precision: NotRequired[str | None]
    leftover: NotRequired[Leftover]
    peak_rss_bytes: NotRequired[int]
    conditions: NotRequired[Around]
    stdout_tail: NotRequired[str]
    warnings: NotRequired[list[str]]  # lines on stderr though it went well, each once a run
    failure: NotRequired[Failure | None]
    unknown: Unknown


class Routine(TypedDict, total=False):
    """A call that reached a BLAS; `evidence` is the mark of docs/evidence.md."""

    evidence: str
    symbol: str | None
    routine: str | None
    library: str | None
    caller: str | None
    args: dict[str, Any] | None
    count: int | None
    reason: str | None
    source: Any


class Kernel(TypedDict, total=False):
    evidence: str
    name: str | None
    core: str | None
    count: int | None
    share: float | None
    samples: int | None
    library: str | None
    reason: str | None
    source: Any


class Evidence(TypedDict, total=False):
    """What really ran; see docs/evidence.md."""

    status: str
    reason: str | None
    cost_s: float | None
    routines: list[Routine]
    kernels: list[Kernel]
    hidden: list[dict[str, Any]]
    no_blas: dict[str, Any] | None
    inconsistent: str | None
    slots_watched: int | None
    problems: dict[str, str]


class Run(TypedDict):
    """One measurement of a cell at one time."""

    schema: int
    id: str  # start of the run and six random hex digits
    tool: Tool
    started_at: Moment
    ended_at: Moment
    follows: NotRequired[str | None]  # id of the run before it, where the clock was set back since
    spec: NotRequired[str]  # digest of all that the plan asked for; absent in older records
    machine: Name
    backend: Name
    adapter: str
    device: Literal["cpu", "cuda", "mps", "gpu"]
    cell: CellKeys
    status: Status
    reason: str | None
    flags: list[str]
    failure: Failure | None
    host: Host
    gpu: Gpu | None
    slurm: NotRequired[Slurm | None]
    promise: NotRequired[Promise | None]
    context: Context
    environment: Environment
    expression: str | None  # the statement that was timed
    library: Library | None
    settings: dict[str, Any]  # of the study
    order: int | None  # place in the study's shuffled order
    invocations: list[Invocation]
    states: NotRequired[list[State]]  # of this machine, as known until now, best first
    conditions: Around
    evidence: Evidence | None
    unknown: Unknown
