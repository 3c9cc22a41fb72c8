"""The few NVML functions that gemmgrid needs, called in the driver's library through ctypes.

Declarations after NVIDIA's nvml.h (NVML API Reference Guide, docs.nvidia.com/deploy/nvml-api).
The library comes with the driver, so nothing has to be installed. Every call gives its value or
raises NvmlError with the library's own words; `gpu.py` turns those into null and a reason.

Not yet run on NVIDIA hardware: tested with a test double that has these functions' C signatures.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from ctypes import byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

LIBRARY = "libnvidia-ml.so.1"

INSUFFICIENT_SIZE = 7
ERRORS = {
    1: "NVML is not initialised",
    2: "invalid argument",
    3: "this GPU does not support it",
    4: "no permission",
    6: "not found",
    9: "the NVIDIA driver is not loaded",
    12: "an NVML library was not found",
    13: "this driver's NVML has no such function",
    15: "the GPU is lost",
    16: "the GPU needs a reset",
    17: "the operating system refused the driver's call",
    18: "driver and NVML library differ in version: reboot, or reload the driver",
    999: "unknown error",
}
SM_CLOCK, MEMORY_CLOCK = 1, 2
GPU_TEMPERATURE = 0
NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE

EVENT_REASONS = {
    0x001: "gpu-idle",
    0x002: "application-clocks",
    0x004: "sw-power-cap",
    0x008: "hw-slowdown",
    0x010: "sync-boost",
    0x020: "sw-thermal",
    0x040: "hw-thermal",
    0x080: "hw-power-brake",
    0x100: "display-clocks",
}
"""nvmlClocksEventReasons (before driver 535: nvmlClocksThrottleReasons), bit by bit."""


class NvmlError(RuntimeError):
    """An NVML call failed; the text says why."""


class Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class Utilization(ctypes.Structure):
    _fields_ = [("gpu", c_uint), ("memory", c_uint)]


class ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    ]


class ProcessInfoV1(ctypes.Structure):  # drivers before 450
    _fields_ = [("pid", c_uint), ("usedGpuMemory", c_ulonglong)]


def reasons(mask: int) -> list[str]:
    """Names of the bits that are set; a bit that this table lacks is named by its number."""
    names = [name for bit, name in EVENT_REASONS.items() if mask & bit]
    rest = mask & ~sum(EVENT_REASONS)
    return names + [f"bit-{bit:#x}" for i in range(rest.bit_length()) if (bit := rest & (1 << i))]


class Nvml:
    """NVML, loaded and initialised; `library` may be a test double."""

    def __init__(self, library: Any = None) -> None:
        """Raises NvmlError where there is no driver or it does not answer."""
        if library is None:
            if not sys.platform.startswith("linux"):
                raise NvmlError(f"NVML is looked for on Linux only, this is {sys.platform}")
            try:
                library = ctypes.CDLL(LIBRARY)
            except OSError as error:
                raise NvmlError(f"{LIBRARY} (part of the NVIDIA driver): {error}") from error
        self._library = library
        self._call("nvmlInit_v2")

    def close(self) -> None:
        with contextlib.suppress(NvmlError):
            self._call("nvmlShutdown")

    def _call(self, name: str, *arguments: Any, allowed: tuple[int, ...] = ()) -> int:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise NvmlError(f"{name}: {ERRORS[13]}") from None
        code = int(function(*arguments))
        if code != 0 and code not in allowed:
            raise NvmlError(f"{name}: {ERRORS.get(code, f'error {code}')}")
        return code

    def _text(self, name: str, size: int, *handle: Any) -> str:
        buffer = ctypes.create_string_buffer(size)
        self._call(name, *handle, ctypes.cast(buffer, c_char_p), c_uint(size))
        return buffer.value.decode("utf-8", "replace")

    def _number(self, name: str, *arguments: Any) -> int:
        value = c_uint()
        self._call(name, *arguments, byref(value))
        return value.value

    # The system

    def driver(self) -> str:
        return self._text("nvmlSystemGetDriverVersion", 80)

    def cuda_version(self) -> str:
        """Highest CUDA version that the driver serves, such as "13.0"."""
        value = c_int()
        self._call("nvmlSystemGetCudaDriverVersion_v2", byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def count(self) -> int:
        return self._number("nvmlDeviceGetCount_v2")

    def device(self, index: int) -> c_void_p:
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    # A device

    def name(self, device: c_void_p) -> str:
        return self._text("nvmlDeviceGetName", 96, device)

    def uuid(self, device: c_void_p) -> str:
        """To match CUDA_VISIBLE_DEVICES; it identifies one card and never enters a record."""
        return self._text("nvmlDeviceGetUUID", 96, device)

    def vbios(self, device: c_void_p) -> str:
        return self._text("nvmlDeviceGetVbiosVersion", 32, device)

    def memory_bytes(self, device: c_void_p) -> tuple[int, int]:
        """Total and free."""
        value = Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, byref(value))
        return value.total, value.free

    def compute_capability(self, device: c_void_p) -> str:
        major, minor = c_int(), c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", device, byref(major), byref(minor))
        return f"{major.value}.{minor.value}"

    def clock_mhz(self, device: c_void_p, kind: int) -> int:
        return self._number("nvmlDeviceGetClockInfo", device, c_uint(kind))

    def max_clock_mhz(self, device: c_void_p, kind: int) -> int:
        return self._number("nvmlDeviceGetMaxClockInfo", device, c_uint(kind))

    def power_w(self, device: c_void_p) -> float:
        return self._number("nvmlDeviceGetPowerUsage", device) / 1000

    def power_cap_w(self, device: c_void_p) -> float:
        """The limit in force, the least of all that apply."""
        return self._number("nvmlDeviceGetEnforcedPowerLimit", device) / 1000

    def default_power_cap_w(self, device: c_void_p) -> float:
        return self._number("nvmlDeviceGetPowerManagementDefaultLimit", device) / 1000

    def energy_j(self, device: c_void_p) -> float:
        """Energy since the driver was loaded (Volta and newer)."""
        value = c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", device, byref(value))
        return value.value / 1000

    def temperature_c(self, device: c_void_p) -> int:
        return self._number("nvmlDeviceGetTemperature", device, c_uint(GPU_TEMPERATURE))

    def clock_reasons(self, device: c_void_p) -> list[str]:
        """Why the clocks are where they are, now."""
        mask = c_ulonglong()
        try:
            self._call("nvmlDeviceGetCurrentClocksEventReasons", device, byref(mask))
        except NvmlError:  # the name before driver 535
            self._call("nvmlDeviceGetCurrentClocksThrottleReasons", device, byref(mask))
        return reasons(mask.value)

    def utilisation(self, device: c_void_p) -> int:
        """Percent of the last sample period in which a kernel ran."""
        value = Utilization()
        self._call("nvmlDeviceGetUtilizationRates", device, byref(value))
        return value.gpu

    def ecc(self, device: c_void_p) -> bool:
        current, pending = c_uint(), c_uint()
        self._call("nvmlDeviceGetEccMode", device, byref(current), byref(pending))
        return current.value == 1

    def mig(self, device: c_void_p) -> bool:
        current, pending = c_uint(), c_uint()
        self._call("nvmlDeviceGetMigMode", device, byref(current), byref(pending))
        return current.value == 1

    def mig_names(self, device: c_void_p) -> list[str]:
        """Names of the MIG instances, such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb"."""
        names = []
        for index in range(self._number("nvmlDeviceGetMaxMigDeviceCount", device)):
            instance = c_void_p()
            with contextlib.suppress(NvmlError):  # most slots of a divided GPU are empty
                self._call(
                    "nvmlDeviceGetMigDeviceHandleByIndex", device, c_uint(index), byref(instance)
                )
                names.append(self.name(instance))
        return names

    def compute_processes(self, device: c_void_p) -> list[int]:
        """Process ids that compute on it, as the driver sees them (in a container: the host's)."""
        last: NvmlError | None = None
        for suffix in ("_v3", "_v2", ""):
            record = ProcessInfo if suffix else ProcessInfoV1
            name = f"nvmlDeviceGetComputeRunningProcesses{suffix}"
            try:
                return self._processes(name, record, device)
            except NvmlError as error:
                last = error
        raise last or NvmlError("no such function")

    def _processes(self, name: str, record: Any, device: c_void_p) -> list[int]:
        count = c_uint(0)
        if self._call(name, device, byref(count), None, allowed=(INSUFFICIENT_SIZE,)) == 0:
            return []
        count = c_uint(count.value * 2 + 5)  # more may have started since
        found = (record * count.value)()
        self._call(name, device, byref(count), found)
        return [found[index].pid for index in range(count.value)]
