"""Theoretical peaks, and limits that no true measurement passes."""

from __future__ import annotations

import pytest

from gemmgrid.measure import machine
from gemmgrid.measure.peaks import cpu_peaks, gpu_peaks, peaks
from gemmgrid.measure.peaks.peaks import least_seconds, peak
from tests.measure import machine_trees as trees

TERA = 1e12


def with_gpu(name, **facts):
    return {"cpu": {}, "gpus": [{"name": name, "mig": [], **facts}]}


def test_a_server_with_amx(tmp_path):
    facts = machine.facts(trees.sapphire_rapids(tmp_path), "x86_64")
    single = peak(facts, "cpu", "float32", 1)
    assert single["flops"] == 64 * 3.8e9
    assert peak(facts, "cpu", "float64", 1)["flops"] == 32 * 3.8e9
    assert peak(facts, "cpu", "bfloat16", 1)["flops"] == 1024 * 3.8e9
    assert peak(facts, "cpu", "float16", 1)["flops"] == 128 * 3.8e9
    assert peak(facts, "cpu", "complex64", 1)["flops"] == single["flops"]
    assert peak(facts, "cpu", "float32", 4)["flops"] == 4 * single["flops"]
    assert peak(facts, "cpu", "float32", 99)["flops"] == 8 * single["flops"]
    assert "64 operations" in single["source"]
    assert single["reason"] is None


def test_a_clock_without_turbo_is_no_peak(tmp_path):
    facts = machine.facts(trees.rome(tmp_path), "x86_64")
    found = peak(facts, "cpu", "float32", 1)
    assert found["flops"] is None
    assert "acpi-cpufreq" in found["reason"]
    assert found["limit"] > 8 * 32 * 3.4e9  # what eight such cores reach with boost


def test_unknown_stays_unknown(tmp_path):
    assert peak(machine.facts(tmp_path, "x86_64"), "cpu", "float32", 1)["limit"] is None
    arm = machine.facts(trees.graviton3(tmp_path / "arm"), "aarch64")
    found = peak(arm, "cpu", "float32", 2)
    assert (found["flops"], found["reason"]) == (None, "the highest clock is not known")
    assert "Neoverse V1" in found["source"]
    mixed = machine.facts(trees.hybrid(tmp_path / "hybrid"), "x86_64")
    assert "two kinds" in peak(mixed, "cpu", "float32", 2)["reason"]


@pytest.mark.parametrize(
    ("cpu", "per_cycle"),
    [
        (("GenuineIntel", 6, 0x55, "Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz"), 64),
        (("GenuineIntel", 6, 0x55, "Intel(R) Xeon(R) Silver 4114 CPU @ 2.20GHz"), None),
        (("GenuineIntel", 6, 0x6A, "Intel(R) Xeon(R) Silver 4310 CPU @ 2.10GHz"), 64),
        (("GenuineIntel", 6, 0x8C, "11th Gen Intel(R) Core(TM) i7-1185G7"), 32),
        (("AuthenticAMD", 0x17, 0x01, "AMD EPYC 7601"), 16),
        (("AuthenticAMD", 0x17, 0x31, "AMD EPYC 7742"), 32),
        (("AuthenticAMD", 0x19, 0x11, "AMD EPYC 9654"), 32),
        (("AuthenticAMD", 0x1A, 0x02, "AMD EPYC 9755"), 64),
        (("AuthenticAMD", 0x1A, 0x24, "AMD Ryzen AI 9 HX 370"), None),
        (("Arm", 8, 0xD0C, "Neoverse N1"), 16),
        (("Arm", 8, 0xD4F, "Neoverse V2"), 32),
        (("Qualcomm", 8, 0x001, "part 0x001"), None),
    ],
)
def test_vector_units(cpu, per_cycle):
    vendor, family, model, name = cpu
    facts = {"vendor": vendor, "family": family, "model_number": model, "model": name}
    facts["isa"] = ["fma", "avx2", "avx512f"]
    assert cpu_peaks.float32_per_cycle(facts)[0] == per_cycle


@pytest.mark.parametrize(
    ("name", "dtype", "precision", "tflops"),
    [
        ("NVIDIA H200", "float32", None, 67),
        ("NVIDIA H200", "float32", "tf32", 494.7),
        ("NVIDIA H200", "bfloat16", None, 989.4),
        ("NVIDIA H100 80GB HBM3", "float64", None, 67),
        ("NVIDIA H100 PCIe", "float16", None, 756.4),
        ("NVIDIA A100-SXM4-80GB", "complex128", None, 19.5),
        ("A100-PCIE-40GB", "float32", "tf32", 156),
        ("Tesla V100-SXM2-16GB", "float16", None, 125),
        ("NVIDIA A100-PCIE-80GB", "bfloat16", None, 312),
        ("Tesla T4", "float32", None, 8.1),
        ("Tesla T4", "float64", None, 0.254),
        ("NVIDIA L40S", "bfloat16", None, 366.4),
        ("NVIDIA GeForce RTX 4090", "float16", None, 165.2),
        ("NVIDIA B200", "bfloat16", None, 2250),
        ("NVIDIA B200", "float32", "tf32", 1125),
        ("Apple M1 Max", "float32", None, 10.62),
    ],
)
def test_gpus(name, dtype, precision, tflops):
    device = "mps" if name.startswith("Apple") else "cuda"
    found = peak(with_gpu(name), device, dtype, precision=precision)
    assert found["flops"] == pytest.approx(tflops * TERA)
    assert found["source"]


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA GeForce RTX 4090 D", "NVIDIA H800", "NVIDIA H20",
     "NVIDIA L40", "NVIDIA H100", "Apple M3 Max", "", None],
)  # fmt: skip
def test_relatives_are_not_in_the_table(name):
    found = peak(with_gpu(name), "cuda", "float32")
    assert found["flops"] is None
    assert "not in the table" in found["reason"]


def test_what_the_hardware_lacks_has_a_reason():
    assert peak(with_gpu("Tesla V100-SXM2-16GB"), "cuda", "bfloat16")["flops"] is None
    assert "bfloat16" in peak(with_gpu("Tesla V100-SXM2-16GB"), "cuda", "bfloat16")["reason"]
    part = peak(with_gpu("NVIDIA H200", mig=["NVIDIA H200 MIG 1g.18gb"]), "cuda", "float32")
    assert (part["flops"], part["reason"]) == (None, "a MIG instance has a part of the GPU only")


def test_a_mac_with_fewer_gpu_cores():
    assert peak(with_gpu("Apple M1", cores=7), "mps", "float32")["flops"] == pytest.approx(
        7 / 8 * 2.617 * TERA
    )


MEASURED = [
    # name, dtype, TFLOP/s as users measured it
    ("NVIDIA H100 80GB HBM3", "bfloat16", 794.5),
    ("NVIDIA H100 80GB HBM3", "float32", 373),  # TF32 behind a float32 call
    ("NVIDIA A100-SXM4-80GB", "bfloat16", 271.2),
    ("NVIDIA A100-SXM4-80GB", "float16", 295),
    ("NVIDIA B200", "bfloat16", 1745),
    ("NVIDIA H100 80GB HBM3", "bfloat16", 821.2),
    ("NVIDIA GH200 480GB", "bfloat16", 852.5),
    ("NVIDIA H100 NVL", "float32", 265.3),
    ("NVIDIA GeForce RTX 4090", "float16", 330),  # with float16 sums
    ("NVIDIA GeForce RTX 4090", "float16", 168.4),  # these five are above the document's peak
    ("NVIDIA GeForce RTX 4090", "float32", 85.65),
    ("NVIDIA GeForce RTX 4090", "float64", 1.4965),
    ("NVIDIA GeForce RTX 5090", "float32", 109.5),
    ("NVIDIA GeForce RTX 5090", "float16", 328),
    ("Apple M4 Max", "float32", 13.3),
    ("Apple M3 Max", "float32", 11.4),
    ("Apple M5", "bfloat16", 7.6),
    ("Apple M1 Max", "float32", 9.26),
]
IMPOSSIBLE = [
    ("Apple M2", "float32", 17_000),  # mag-/gpu_benchmark#3: no synchronisation
    ("NVIDIA A100-SXM4-80GB", "float32", 80_000),  # pytorch/pytorch#93286
    ("NVIDIA Some New GPU", "float32", 80_000),
]


UNITS = [
    # name, SMs or GPU cores, clocks in MHz of vector units and of matrix units, and operations a
    # clock and SM in float32, float64 and float16
    ("Tesla V100-SXM2-16GB", 80, 1530, 1530, 128, 64, 1024),
    ("Tesla V100-PCIE-16GB", 80, 1367, 1367, 128, 64, 1024),
    ("Tesla T4", 40, 1590, 1590, 128, 4, 1024),
    ("NVIDIA A100-SXM4-80GB", 108, 1410, 1410, 128, 128, 2048),
    ("NVIDIA H100 80GB HBM3", 132, 1980, 1830, 256, 256, 4096),
    ("NVIDIA H100 PCIe", 114, 1755, 1620, 256, 256, 4096),
    ("NVIDIA H100 NVL", 132, 1785, 1545, 256, 256, 4096),
    ("NVIDIA GH200 480GB", 132, 1980, 1830, 256, 256, 4096),
    ("NVIDIA H200", 132, 1980, 1830, 256, 256, 4096),
    ("NVIDIA L4", 58, 2040, 2040, 256, 4, 1024),
    ("NVIDIA L40S", 142, 2520, 2520, 256, 4, 1024),
    ("NVIDIA GeForce RTX 3090", 82, 1695, 1695, 256, 4, 512),
    ("NVIDIA GeForce RTX 4090", 128, 2520, 2520, 256, 4, 512),
    ("NVIDIA GeForce RTX 5090", 170, 2407, 2407, 256, 4, 512),
    ("Apple M1", 8, 1278, 1278, 256, 0, 256),
    ("Apple M1 Ultra", 64, 1296, 1296, 256, 0, 256),
    ("Apple M2", 10, 1398, 1398, 256, 0, 256),
]


@pytest.mark.parametrize(("name", "units", "clock", "slow", "single", "double", "half"), UNITS)
def test_a_row_is_units_times_clock(name, units, clock, slow, single, double, half):
    row = gpu_peaks.lookup(name)
    assert row.clock_mhz == slow
    assert row.float32 == pytest.approx(units * single * clock / 1e6, rel=0.006)
    assert (row.float64 or 0) == pytest.approx(units * double * clock / 1e6, rel=0.006)
    assert row.float16 == pytest.approx(units * half * slow / 1e6, rel=0.006)
    assert row.bfloat16 in (row.float16, None)


@pytest.mark.parametrize(("name", "dtype", "tflops"), MEASURED)
def test_no_true_measurement_is_condemned(name, dtype, tflops):
    assert peak(with_gpu(name), "gpu", dtype)["limit"] > tflops * TERA


@pytest.mark.parametrize(("name", "dtype", "tflops"), IMPOSSIBLE)
def test_reported_impossible_rates_are(name, dtype, tflops):
    assert peak(with_gpu(name), "gpu", dtype)["limit"] < tflops * TERA


def test_a_verified_precision_tightens_the_limit():
    facts = with_gpu("NVIDIA H200", max_sm_mhz=1980)
    loose = peak(facts, "cuda", "float32")["limit"]
    exact = peak(facts, "cuda", "float32", precision="float32")["limit"]
    assert 67 * TERA < exact < loose
    assert loose == pytest.approx(989.4 * TERA * 1980 / 1830 * peaks.MARGIN)
    own_word = peak(facts, "cuda", "float32", precision="float32-like")
    assert own_word["limit"] == loose  # a word that is not in the list tightens nothing


NAMES = [
    *("Tesla V100-SXM2-32GB", "Tesla V100-PCIE-16GB", "Tesla V100S-PCIE-32GB", "Tesla T4"),
    *("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB"),
    *("NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL"),
    *("NVIDIA GH200 480GB", "NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA B200", "NVIDIA GB200"),
    *("NVIDIA L4", "NVIDIA L40S", "NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090"),
    *("NVIDIA GeForce RTX 5090", "Apple M1", "Apple M1 Pro", "Apple M1 Max", "Apple M1 Ultra"),
    "Apple M2",
]
"""As NVML and macOS give them, one for each row."""


def test_every_row_has_a_name_of_its_own():
    assert [gpu_peaks.lookup(name) for name in NAMES] == list(gpu_peaks.GPUS)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_consistent(name):
    row = gpu_peaks.lookup(name)
    assert row.source
    rates = [row.float64, row.float32, row.tf32, row.float16, row.bfloat16]
    assert all(rate is None or 0.1 < rate < 5000 for rate in rates)
    assert row.float64 is None or row.float64 <= row.float32
    if row.tf32:  # half of bfloat16 in the same units, but for rounding
        assert row.tf32 == pytest.approx(row.bfloat16 / 2, rel=0.025)
    if row.float16_sums:
        assert row.float16_sums == pytest.approx(2 * row.float16, rel=0.01)
    for dtype in peaks.DTYPES:
        real = "float32" if dtype == "tf32" else dtype
        for precision in (None, dtype):
            found = peak(with_gpu(name), "gpu", real, precision=precision)
            assert found["flops"] is None or found["flops"] < found["limit"]


def test_the_table_for_machine_json(tmp_path):
    facts = machine.facts(trees.sapphire_rapids(tmp_path), "x86_64")
    assert facts["peaks"]["cpu"]["cores"] == 8
    assert facts["peaks"]["cpu"]["float64"]["flops_per_core"] == 32 * 3.8e9
    assert facts["peaks"]["gpu"] is None
    facts["gpus"] = [{"name": "NVIDIA H200", "mig": []}]
    table = peaks.table(facts)
    assert table["gpu"]["tf32"]["flops"] == 494.7 * TERA
    assert table["gpu"]["float32"]["flops"] == 67 * TERA


def test_the_shortest_time():
    h200 = peak(with_gpu("NVIDIA H200"), "cuda", "float32")
    # 8192^3 in TF32 is bound by the units, a dot product of 4 GB by the memory
    assert least_seconds(h200, 2 * 8192**3, 3 * 4 * 8192**2) == pytest.approx(
        2 * 8192**3 / h200["limit"]
    )
    assert least_seconds(h200, 10**9, 4 * 10**9) == pytest.approx(
        (4 * 10**9 - 60 * 2**20) / (4.8e12 * peaks.OVER_CLOCK)
    )
    assert least_seconds({"limit": None}, 10, 10) is None
    assert least_seconds(peak({}, "cuda", "float32"), 10, 10) is None


@pytest.mark.parametrize(
    ("name", "cache"), [("NVIDIA H200", 60), ("NVIDIA H100 NVL", 60), ("NVIDIA B200", 126)]
)
def test_what_the_cache_holds_need_not_be_fetched(name, cache):
    limits = peak(with_gpu(name), "cuda", "float32")  # caches as torch reports them, in 2**20
    assert least_seconds(limits, 10**6, cache * 2**20) == 10**6 / limits["limit"]
    assert least_seconds(limits, 10**6, (cache + 100) * 2**20) == pytest.approx(
        100 * 2**20 / (limits["bytes_per_s"] * peaks.OVER_CLOCK)
    )


@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("NVIDIA GeForce RTX 4090", 1017.66),  # memory overclocked, krrishnarraj/clpeak#108
        ("NVIDIA H100 NVL", 3601),
    ],
)
def test_no_true_bandwidth_is_condemned(name, gbps):
    limits = peak(with_gpu(name), "cuda", "float32")
    assert least_seconds(limits, 10**9, 4 * 10**9) < 4e9 / (gbps * 1e9)


def test_this_machine_cannot_reach_its_limit():
    facts = machine.facts()
    limit = peak(facts, "cpu", "float64", 1)["limit"]
    assert limit is None or limit > facts["cpu"]["cores"] * 16 * 2e9


@pytest.mark.parametrize(
    ("model", "name", "per_cycle"),
    [
        (0xBE, "Intel(R) N100", 16),
        (0xAF, "Intel(R) Xeon(R) 6780E", 16),
        (0xDD, "Intel(R) Xeon(R) 6990E+", None),  # Clearwater Forest: not described yet
        (0x3F, "Intel(R) Xeon(R) CPU E5-2680 v3 @ 2.50GHz", 32),
    ],
)
def test_efficient_cores_have_narrow_units(model, name, per_cycle):
    facts = {"vendor": "GenuineIntel", "family": 6, "model_number": model, "model": name}
    assert cpu_peaks.float32_per_cycle({**facts, "isa": ["fma", "avx2"]})[0] == per_cycle


def test_the_gpu_that_is_judged_is_the_one_that_is_used():
    facts = {"cpu": {}, "gpus": [{"name": "NVIDIA L4"}, {"name": "NVIDIA H200"}]}
    assert peak(facts, "cuda", "float32", 1, None, 1)["flops"] == 67 * TERA
    in_common = peaks.table(facts)["gpu"]["float32"]
    assert (in_common["flops"], in_common["reason"]) == (None, "its GPUs are of several kinds")
    alike = {"cpu": {}, "gpus": [{"name": "NVIDIA H200"}] * 2}
    assert peaks.table(alike)["gpu"]["float32"]["flops"] == 67 * TERA
