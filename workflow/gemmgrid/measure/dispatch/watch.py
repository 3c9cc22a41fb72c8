"""Watching one product run, with every tracer that works here, and for no longer than needed.

Routines and kernels are traced first; the libraries' own logs are read where nothing was traced;
the processor is sampled only where no kernel is known by then. A product that takes long is not
waited for: as soon as enough is known, `finish` gets what was seen and the process may end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from gemmgrid.measure.dispatch.library_logs import cpu_libraries, gpu_libraries, xla_program
from gemmgrid.measure.dispatch.objects.elf import named_objects
from gemmgrid.measure.dispatch.objects.refusals import DispatchError
from gemmgrid.measure.dispatch.trace.kernel_table import KernelCount, TableTrace, find_tables
from gemmgrid.measure.dispatch.trace.patch import Trace, tracing
from gemmgrid.measure.dispatch.trace.perf_sampling import Sampler, Samples
from gemmgrid.measure.dispatch.trace.routine_calls import RoutineTrace, TracedCall

SAMPLE_S = 0.15
"""Seconds of sampling, where it is needed: 300 samples for each busy thread."""
MOST_SAMPLE_S = 0.6
"""Sampling goes on so long where threads mostly wait for one another, until work was seen too."""
PATIENCE_S = 0.15
"""Seconds after which a product that still runs is left to itself once enough is known."""
QUICK_S = 0.05
"""A product that took less is run again: its first call may have loaded or bound something."""
ENOUGH_SAMPLES = 50
POLL_S = 0.02
COMPILING = ("jax", "torch", "mlx")
"""Libraries whose first call compiles, and which say more in their logs than sampling can show."""
COMPILING_PATIENCE_S = 5.0


@dataclass
class Watched:
    """What was seen while a product ran once. `problems` says what could not be looked at."""

    calls: list[TracedCall] = field(default_factory=list)
    kernels: list[KernelCount] = field(default_factory=list)
    logged: list[cpu_libraries.LoggedCall] = field(default_factory=list)
    program: xla_program.Program | None = None
    device_kernels: list[gpu_libraries.DeviceKernel] = field(default_factory=list)
    samples: Samples = field(default_factory=Samples)
    slots_watched: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    """By what could not be done: trace, log, sample, or the path of a library."""
    waiting_share: float | None = None
    """Share of waiting that made us sample again with one thread, None where that was not so."""
    running_s: float | None = None
    """How long the product had run when it was left to itself, None if it ended."""


@dataclass
class Watcher:
    """Watches one product in this process."""

    run: Callable[[], None]
    """Runs the product once, and waits until it is done."""
    library: str
    """The adapter's name."""
    device: str = "cpu"
    """cpu, cuda, mps or gpu."""
    folder: Path | None = None
    """Where the device's and XLA's logs go, if they were switched on before the import."""
    threads: tuple[Callable[[int], None], int] | None = None
    """Sets the library's number of threads, and the number that the product is asked for."""
    finish: Callable[[Watched], None] | None = None
    """Called from another thread with what was seen, if the product takes too long; it should not
    return."""
    _seen: Watched = field(default_factory=Watched)
    _trace: RoutineTrace | None = None
    _tables: list[TableTrace] = field(default_factory=list)
    _sampler: Sampler | None = None
    _call_started: float | None = None
    _logs_before: dict[str, int] = field(default_factory=dict)
    """Bytes of the device's logs before the last run."""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    """Held while the tracers are read or taken down: neither may happen during the other."""
    _ended: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> Watched:
        """Run the product as often as it takes; what was seen of one run of it."""
        guard = threading.Thread(target=self._guard, name="gemmgrid-guard", daemon=True)
        if self.finish:
            guard.start()
        try:
            if self.device in ("cpu", "cuda"):
                self._traced()
            if self.device == "cpu":
                self._logged()
                self._sampled()
            else:
                self._on_device()
        finally:
            self._ended.set()
        return self._seen

    def _traced(self) -> None:
        elapsed, changed = self._traced_run()
        if changed or elapsed < QUICK_S or self.library in COMPILING:
            self._traced_run()

    def _traced_run(self) -> tuple[float, bool]:
        """One run under the tracers: its seconds, and whether it loaded other libraries."""
        before = {loaded.base for loaded in named_objects()}
        self._seen = Watched()
        self._arm()
        with ExitStack() as stack:
            traces: list[Trace] = [*self._tables]
            if self._trace:
                traces.append(self._trace)
            try:
                patch = stack.enter_context(tracing(*traces))
            except DispatchError as error:
                self._seen.problems["trace"] = str(error)
                self._trace, self._tables = None, []
            else:
                if self._trace:
                    self._seen.slots_watched = patch.watched(self._trace.switches)
            self._sampler = self._start_sampler(stack) if self.device == "cpu" else None
            elapsed = self._timed_run()
        self._collect(self._seen)
        self._sampler = None
        return elapsed, {loaded.base for loaded in named_objects()} != before

    def _arm(self) -> None:
        """Tracers for what is loaded now, or the reasons why there are none."""
        self._trace, self._tables = None, []
        try:
            self._trace = RoutineTrace()
            self._tables, problems = find_tables()
            self._seen.problems.update(problems)
        except DispatchError as error:
            self._seen.problems["trace"] = str(error)

    def _start_sampler(self, stack: ExitStack) -> Sampler | None:
        try:
            return stack.enter_context(Sampler())
        except DispatchError as error:
            self._seen.problems["sample"] = str(error)
            return None

    def _timed_run(self) -> float:
        """One run of the product: its seconds. A device's logs are read from here on."""
        if self.device == "cuda" and self.folder:
            self._logs_before = gpu_libraries.log_sizes(self.folder)
        self._call_started = time.perf_counter()
        self.run()
        with self._looking:
            elapsed = time.perf_counter() - self._call_started
            self._call_started = None
        return elapsed

    def _collect(self, into: Watched) -> None:
        """What the tracers hold; asked at the end of a run, or in the middle of a long one."""
        if self._trace:
            into.calls = self._trace.read()
        into.kernels = [kernel for table in self._tables for kernel in table.read()]
        if self._sampler and not into.kernels:  # naming the samples costs 10 to 100 ms
            into.samples = self._sampler.samples()

    def _logged(self) -> None:
        """The libraries' own word, where no call was traced."""
        if self._seen.calls:
            return
        if self.library == "jax" and self.folder:
            self._seen.program = xla_program.read_programs(self.folder)
        elif self.library != "jax":
            try:
                self._seen.logged = cpu_libraries.logged(self._timed_run)
            except OSError as error:
                self._seen.problems["log"] = f"output could not be captured: {error}"

    def _sampled(self) -> None:
        """Sampling, where no kernel is known yet and the last run gave too few samples."""
        seen = self._seen
        if seen.kernels or any(call.kernel for call in seen.logged) or "sample" in seen.problems:
            return
        if seen.samples.working >= ENOUGH_SAMPLES:
            return
        try:
            seen.samples = self._sampled_windows()
            if seen.samples.working < ENOUGH_SAMPLES and self.threads and self.threads[1] > 1:
                # Threads that share a busy processor do little but wait for one another.
                seen.waiting_share = seen.samples.waiting / max(1, seen.samples.total)
                set_threads, asked = self.threads
                set_threads(1)
                seen.samples = self._sampled_windows()
                set_threads(asked)
        except DispatchError as error:
            seen.problems["sample"] = str(error)
        self._sampler = None

    def _sampled_windows(self) -> Samples:
        """Samples of windows one after the other, until enough of them show work."""
        samples = Samples()
        last = time.perf_counter() + MOST_SAMPLE_S
        while samples.working < ENOUGH_SAMPLES and time.perf_counter() < last:
            samples.add(self._sampled_window())
        return samples

    def _sampled_window(self) -> Samples:
        with Sampler() as sampler:
            self._sampler = sampler
            end = time.perf_counter() + SAMPLE_S
            while time.perf_counter() < end:
                self._timed_run()
        return sampler.samples()

    def _on_device(self) -> None:
        """CUDA and MPS: the profiler's kernels, and the libraries' logs."""
        if self.library == "jax" and self.folder:
            self._seen.program = xla_program.read_programs(self.folder)
        if self.device == "cuda" and self.library == "torch":
            import torch

            self._seen.device_kernels = gpu_libraries.profile_torch(
                self._timed_run, torch.cuda.synchronize
            )
        if self.device == "cuda" and self.folder:
            self._seen.logged = gpu_libraries.read_logs(self.folder, self._logs_before)
        if self.device == "mps":
            with cpu_libraries.captured(2) as output:
                self.run()
            self._seen.logged = gpu_libraries.parse_mps(output.text)

    def _guard(self) -> None:
        """Ends the watching of a product that takes long, as soon as enough is known."""
        patience = COMPILING_PATIENCE_S if self.library in COMPILING else PATIENCE_S
        while not self._ended.wait(POLL_S):
            with self._looking:
                started = self._call_started
                running = 0.0 if started is None else time.perf_counter() - started
                if running < patience:
                    continue
                snapshot = replace(self._seen, running_s=running)
                self._collect(snapshot)
                if _enough(snapshot) and self.finish:
                    self.finish(snapshot)


def _enough(seen: Watched) -> bool:
    """Whether routine and kernel are known, or sampling has shown who works."""
    return bool(seen.calls and seen.kernels) or seen.samples.working >= ENOUGH_SAMPLES
