"""What is asked of NVML, against a test double of nvidia-ml-py's functions."""

from __future__ import annotations

import inspect
import json
from types import SimpleNamespace

import pynvml
import pytest

from gemmgrid.measure.host import gpu
from gemmgrid.measure.host.gpu import Card, GpuWatch

NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
NO_FUNCTION = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
UUIDS = ("GPU-11111111-2222-3333-4444-555555555555", "GPU-11119999-2222-3333-4444-555555555555")
MIG = "MIG-5c8d1111-2222-3333-4444-555555555555"


class Driver:
    """A test double of the module pynvml: functions that answer from `values`, errors raised.

    A value that is a function gets the arguments; handles are the numbers of the GPUs.
    """

    NVMLError = pynvml.NVMLError

    def __init__(self, **values):
        for name, answer in values.items():
            # A name or a number of arguments that pynvml has not would prove nothing.
            signature = inspect.signature(getattr(pynvml, name))
            setattr(self, name, self._function(answer, signature))

    def _function(self, answer, signature):
        def function(*arguments):
            signature.bind(*arguments)
            found = answer(*arguments) if callable(answer) else answer
            if isinstance(found, pynvml.NVMLError):
                raise found
            return found

        return function


def h200(**changes):
    return Driver(
        **{
            "nvmlSystemGetDriverVersion": "570.86.15",
            "nvmlSystemGetCudaDriverVersion": 12080,
            "nvmlDeviceGetCount": 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetIndex": lambda handle: handle,
            "nvmlDeviceGetName": "NVIDIA H200",
            "nvmlDeviceGetUUID": lambda handle: UUIDS[handle],
            "nvmlDeviceGetHandleByUUID": lambda uuid: (
                "instance" if uuid == MIG else pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
            ),
            "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": lambda instance: 1,
            "nvmlDeviceGetVbiosVersion": "96.00.A5.00.01",
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150754820096, free=150000000000),
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetClockInfo": lambda handle, kind: {1: 1965 + handle, 2: 3201}[kind],
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetPowerUsage": 691250,
            "nvmlDeviceGetEnforcedPowerLimit": 700000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000_000_123_456,
            "nvmlDeviceGetTemperature": lambda handle, sensor: {0: 61}[sensor],
            "nvmlDeviceGetCurrentClocksEventReasons": 0x24,
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=98, memory=40),
            "nvmlDeviceGetEccMode": [1, 1],
            "nvmlDeviceGetMigMode": [0, 0],
            "nvmlDeviceGetComputeRunningProcesses": ["one", "another"],
            **changes,
        }
    )


def test_facts():
    found = gpu.facts(h200())
    assert len(found) == 2
    assert found[0] == {
        "vendor": "NVIDIA",
        "name": "NVIDIA H200",
        "memory_bytes": 150754820096,
        "compute_capability": "9.0",
        "mig": [],
        "driver": "570.86.15",
        "cuda": "12.8",
        "max_sm_mhz": 1980,
        "max_mem_mhz": 3201,
        "unknown": {},
    }
    assert "GPU-1111" not in json.dumps(found)


def test_a_divided_gpu_names_its_instances():
    def instance(_, slot):
        return "instance" if slot == 3 else pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)

    def name(handle):
        return "NVIDIA H200 MIG 3g.71gb" if handle == "instance" else "NVIDIA H200"

    divided = h200(
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetMigDeviceHandleByIndex=instance,
        nvmlDeviceGetName=name,
    )
    assert gpu.facts(divided)[0]["mig"] == ["NVIDIA H200 MIG 3g.71gb"]


def test_a_sample_and_its_reasons():
    found = Card(h200(), 1).sample()
    assert found.pop("at").endswith("Z")
    assert found == {
        "sm_mhz": 1966,
        "mem_mhz": 3201,
        "power_w": 691.25,
        "temperature_c": 61,
        "throttle_reasons": ["sw-power-cap", "sw-thermal"],
        "utilisation": 98,
        "unknown": {},
    }
    assert gpu.throttled([found])
    assert not gpu.throttled([{"throttle_reasons": ["gpu-idle", "application-clocks"]}, {}])


def test_full_power_is_no_throttling():
    """A large product holds a card at its power cap all the time: that is its normal speed."""
    assert not gpu.throttled([{"throttle_reasons": ["sw-power-cap"]}])
    assert gpu.throttled([{"throttle_reasons": ["sw-power-cap", "hw-thermal"]}])


def test_the_watch_keeps_samples_with_their_times(monkeypatch):
    monkeypatch.setattr(gpu, "WATCH_S", 0.0)
    watch = GpuWatch(Card(h200(), 0))
    watch.look()
    watch.look()
    times = [sample["at"] for sample in watch.samples]
    assert times == sorted(times)
    assert len(set(times)) == 2
    assert watch.flags == ["throttled"]
    watch.begin()
    assert (watch.samples, watch.flags) == ([], [])
    nothing = GpuWatch(None)
    nothing.look()
    assert nothing.samples == []


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
    assert gpu.clock_reasons(mask) == names


def test_conditions_count_who_computes():
    found = Card(h200(), 0).conditions()
    assert found["other_processes"] == 2
    assert found["energy_j"] == 5_000_000_123.456
    assert (found["power_cap_w"], found["free_bytes"]) == (700.0, 150000000000)
    assert (
        Card(h200(nvmlDeviceGetComputeRunningProcesses=[]), 0).conditions()["other_processes"] == 0
    )


def test_context():
    assert Card(h200(), 0).context() == {
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
    found = Card(h200(nvmlDeviceGetPowerUsage=NOT_SUPPORTED), 0).conditions()
    assert found["power_w"] is None
    assert "Not Supported" in found["unknown"]["power_w"]
    assert found["sm_mhz"] == 1965


def test_a_card_that_went_away_is_all_unknown():
    gone = h200(nvmlDeviceGetHandleByIndex=pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST))
    found = Card(gone, 0).conditions()
    assert found["sm_mhz"] is None
    assert "lost" in found["unknown"]["sm_mhz"]


def test_an_older_driver():
    older = h200(
        nvmlDeviceGetCurrentClocksEventReasons=NO_FUNCTION,
        nvmlDeviceGetCurrentClocksThrottleReasons=0x40,
        nvmlDeviceGetComputeRunningProcesses=NO_FUNCTION,
        nvmlDeviceGetComputeRunningProcesses_v2=["one"],
        nvmlDeviceGetMigMode=NO_FUNCTION,
    )
    assert Card(older, 0).sample()["throttle_reasons"] == ["hw-thermal"]
    assert Card(older, 0).conditions()["other_processes"] == 1
    found = gpu.facts(older)[0]
    assert found["mig"] is None
    assert "Function Not Found" in found["unknown"]["mig"]


@pytest.mark.parametrize(
    ("visible", "index"),
    [
        (None, 0),
        ("1", 1),
        ("1,0", 1),
        ("2", None),  # there are two
        ("", None),
        ("-1", None),
        (UUIDS[1], 1),
        ("GPU-11111111-2222", 0),
        ("GPU-1111", None),  # of both: it names none
        ("GPU-99999999", None),
        (MIG, 1),
        ("MIG-00000000", None),
        (f"MIG-{UUIDS[1]}/3/0", 1),
    ],
)
def test_the_visible_device(visible, index):
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found, reason = gpu.visible_index(h200(), variables)
    assert found == index
    assert bool(reason) == (index is None)


def test_the_order_of_unlike_gpus():
    """Only CUDA knows which of them it calls the fastest."""
    unlike = h200(nvmlDeviceGetName=lambda handle: ("NVIDIA A100", "NVIDIA H200")[handle])
    second = {"CUDA_VISIBLE_DEVICES": "1"}
    assert gpu.visible_index(unlike, {**second, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == (1, "")
    for variables in (second, {**second, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}):
        index, reason = gpu.visible_index(unlike, variables)
        assert index is None
        assert "by speed" in reason
    named = {"CUDA_VISIBLE_DEVICES": UUIDS[1], "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert gpu.visible_index(unlike, named) == (1, "")


def test_no_driver_gives_a_reason():
    nvml, reason = gpu.connect()
    assert (nvml is None) == bool(reason)
    card, why = gpu.used("cuda")
    assert (card is None) == bool(why)
    assert gpu.used("cpu")[0] is None
