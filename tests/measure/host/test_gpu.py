"""NVML through its C signatures, against a test double of the driver's library."""

from __future__ import annotations

import ctypes
import json
from ctypes import CFUNCTYPE, POINTER, c_int, c_uint, c_ulonglong, c_void_p

import pytest

from gemmgrid.measure.host import gpu
from gemmgrid.measure.host.nvml import Memory, Nvml, NvmlError, ProcessInfo, Utilization, reasons

NOT_SUPPORTED = 3
HANDLE = 0x7F0000001000


class Driver:
    """A test double of libnvidia-ml: C functions (ctypes callbacks) that answer from `values`.

    `values` is function name → what it writes (a list for several out-parameters) or an error code
    wrapped in an NvmlCode; functions that are not there are missing, as in an older driver.
    """

    def __init__(self, **values):
        self.asked = []
        self._keep = []
        defaults = {
            "nvmlInit_v2": (),
            "nvmlShutdown": (),
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlSystemGetCudaDriverVersion_v2": [(c_int, 12080)],
            "nvmlDeviceGetCount_v2": [(c_uint, 2)],
        }
        for name, answer in {**defaults, **values}.items():
            setattr(self, name, self._function(name, answer))
        handle = CFUNCTYPE(c_int, c_uint, POINTER(c_void_p))(self._handle)
        self._keep.append(handle)
        self.nvmlDeviceGetHandleByIndex_v2 = handle

    def _handle(self, index, out):
        self.asked.append(("handle", index))
        out[0] = HANDLE + index
        return 0

    def _function(self, name, answer):
        of_device = "Device" in name and "GetCount" not in name
        first = (c_void_p,) if of_device else ()
        if isinstance(answer, int):  # an error code
            function = CFUNCTYPE(c_int, *first)(lambda *_: answer)
        elif isinstance(answer, str):

            def fill(*arguments):
                address, size = arguments[-2:]
                raw = answer.encode() + b"\0"
                assert len(raw) <= size
                ctypes.memmove(address, raw, len(raw))
                return 0

            function = CFUNCTYPE(c_int, *first, c_void_p, c_uint)(fill)
        elif callable(answer):
            function = CFUNCTYPE(c_int, *first, POINTER(c_uint), c_void_p)(answer)
        elif answer and answer[0] == "kind":  # an enumeration before the value
            table = answer[1]

            def choose(_handle, kind, out):
                out[0] = table[kind]
                return 0

            function = CFUNCTYPE(c_int, c_void_p, c_uint, POINTER(c_uint))(choose)
        else:
            types = [POINTER(kind) for kind, _ in answer]

            def write(*arguments):
                self.asked.append((name, arguments[0] if of_device else None))
                for out, (_, value) in zip(arguments[len(first) :], answer, strict=True):
                    out[0] = value
                return 0

            function = CFUNCTYPE(c_int, *first, *types)(write)
        self._keep.append(function)
        return function


def h200(**changes):
    return Driver(
        **{
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetUUID": "GPU-11111111-2222-3333-4444-555555555555",
            "nvmlDeviceGetVbiosVersion": "96.00.A5.00.01",
            "nvmlDeviceGetMemoryInfo": [(Memory, Memory(150754820096, 150000000000, 754820096))],
            "nvmlDeviceGetCudaComputeCapability": [(c_int, 9), (c_int, 0)],
            "nvmlDeviceGetClockInfo": ("kind", {0: 1980, 1: 1965, 2: 3201}),
            "nvmlDeviceGetMaxClockInfo": ("kind", {0: 1980, 1: 1980, 2: 3201}),
            "nvmlDeviceGetPowerUsage": [(c_uint, 691250)],
            "nvmlDeviceGetEnforcedPowerLimit": [(c_uint, 700000)],
            "nvmlDeviceGetPowerManagementDefaultLimit": [(c_uint, 700000)],
            "nvmlDeviceGetTotalEnergyConsumption": [(c_ulonglong, 5_000_000_123_456)],
            "nvmlDeviceGetTemperature": ("kind", {0: 61}),
            "nvmlDeviceGetCurrentClocksEventReasons": [(c_ulonglong, 0x24)],
            "nvmlDeviceGetUtilizationRates": [(Utilization, Utilization(98, 40))],
            "nvmlDeviceGetEccMode": [(c_uint, 1), (c_uint, 1)],
            "nvmlDeviceGetMigMode": [(c_uint, 0), (c_uint, 0)],
            "nvmlDeviceGetComputeRunningProcesses_v3": processes(ProcessInfo, [4242, 77]),
            **changes,
        }
    )


def processes(record, pids):
    def answer(_handle, count, address):
        if address is None:
            count[0] = len(pids)
            return 0 if not pids else 7  # INSUFFICIENT_SIZE
        assert count[0] >= len(pids)
        table = (record * len(pids))()
        for row, pid in zip(table, pids, strict=True):
            row.pid = pid
        ctypes.memmove(address, table, ctypes.sizeof(table))
        count[0] = len(pids)
        return 0

    return answer


def test_facts():
    found = gpu.facts(Nvml(h200()))
    assert len(found) == 2
    first = dict(found[0])
    assert first.pop("unknown") == {}
    assert first == {
        "vendor": "NVIDIA",
        "name": "NVIDIA H200",
        "memory_bytes": 150754820096,
        "compute_capability": "9.0",
        "mig": [],
        "driver": "570.86.15",
        "cuda": "12.8",
        "max_sm_mhz": 1980,
        "max_mem_mhz": 3201,
    }
    assert "GPU-1111" not in json.dumps(found)


def test_a_sample_and_its_reasons():
    driver = h200()
    found = gpu.sample(Nvml(driver), 1)
    assert found == {
        "sm_mhz": 1965,
        "mem_mhz": 3201,
        "power_w": 691.25,
        "temperature_c": 61,
        "throttle_reasons": ["sw-power-cap", "sw-thermal"],
        "utilisation": 98,
        "unknown": {},
    }
    assert ("nvmlDeviceGetPowerUsage", HANDLE + 1) in driver.asked
    assert gpu.throttled([found])
    assert not gpu.throttled([{"throttle_reasons": ["gpu-idle", "application-clocks"]}, {}])


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, []),
        (0x1, ["gpu-idle"]),
        (0x2, ["application-clocks"]),
        (0x48, ["hw-slowdown", "hw-thermal"]),
        (0x80, ["hw-power-brake"]),
        (0x110, ["sync-boost", "display-clocks"]),
        (0x200 | 0x1, ["gpu-idle", "bit-0x200"]),
    ],
)
def test_reasons_are_named_bit_by_bit(mask, names):
    assert reasons(mask) == names


def test_conditions_count_other_users():
    nvml = Nvml(h200())
    found = gpu.conditions(nvml, 0, own=frozenset({4242}))
    assert found["other_processes"] == 1
    assert found["energy_j"] == 5_000_000_123.456
    assert (found["power_cap_w"], found["free_bytes"]) == (700.0, 150000000000)
    quiet = Nvml(h200(nvmlDeviceGetComputeRunningProcesses_v3=processes(ProcessInfo, [])))
    assert gpu.conditions(quiet, 0)["other_processes"] == 0


def test_context():
    assert gpu.context(Nvml(h200()), 0) == {
        "driver": "570.86.15",
        "cuda": "12.8",
        "vbios": "96.00.A5.00.01",
        "power_cap_w": 700.0,
        "default_power_cap_w": 700.0,
        "ecc": True,
        "mig": [],
        "unknown": {},
    }


def test_what_a_card_lacks_is_null_with_a_reason():
    nvml = Nvml(
        h200(nvmlDeviceGetPowerUsage=NOT_SUPPORTED, nvmlDeviceGetTotalEnergyConsumption=999)
    )
    found = gpu.conditions(nvml, 0)
    assert found["power_w"] is None
    assert "does not support" in found["unknown"]["power_w"]
    assert "unknown error" in found["unknown"]["energy_j"]
    assert found["sm_mhz"] == 1965


def test_an_older_driver():
    driver = h200(nvmlDeviceGetCurrentClocksThrottleReasons=[(c_ulonglong, 0x40)])
    del driver.nvmlDeviceGetCurrentClocksEventReasons
    del driver.nvmlDeviceGetComputeRunningProcesses_v3
    del driver.nvmlDeviceGetMigMode
    nvml = Nvml(driver)
    assert gpu.sample(nvml, 0)["throttle_reasons"] == ["hw-thermal"]
    found = gpu.conditions(nvml, 0)
    assert found["other_processes"] is None
    assert "no such function" in found["unknown"]["other_processes"]
    assert gpu.facts(nvml)[0]["mig"] is None


def test_a_driver_that_does_not_start():
    with pytest.raises(NvmlError, match="differ in version"):
        Nvml(Driver(nvmlInit_v2=18))


@pytest.mark.parametrize(
    ("visible", "index"),
    [
        (None, 0),
        ("1", 1),
        ("1,0", 1),
        ("", None),
        ("-1", None),
        ("GPU-11111111-2222", 0),
        ("GPU-99999999", None),
        ("MIG-5c8d", 0),
    ],
)
def test_the_visible_device(visible, index):
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpu.visible_index(Nvml(h200()), variables) == index


def test_no_driver_gives_a_reason():
    nvml, reason = gpu.connect()
    assert (nvml is None) == bool(reason)
