"""Operating system, kernel, libc, virtual machine, container; memory and its NUMA nodes."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmgrid.system import macos
from gemmgrid.system.files import ROOT, cpu_list, meminfo, text

CLOCKSOURCES = {"kvm-clock": "kvm", "hyperv_clocksource": "hyper-v", "xen": "xen"}
DMI = {
    "kvm": "kvm",
    "qemu": "qemu",
    "vmware": "vmware",
    "virtualbox": "virtualbox",
    "google compute engine": "google",
    "amazon ec2": "ec2",
    "virtual machine": "hyper-v",
    "openstack": "openstack",
    "bochs": "bochs",
    "parallels": "parallels",
}


def facts(root: Path, unknown: dict[str, str]) -> dict[str, Any]:
    """os, kernel, libc, virtualisation and container, as far as this process can see."""
    found: dict[str, Any] = {
        "os": operating_system(root),
        "kernel": kernel(root),
        "libc": libc(),
        "virtualisation": virtualisation(root),
        "container": container(root),
    }
    reasons = {
        "os": "/etc/os-release does not tell it",
        "kernel": "/proc/sys/kernel/osrelease does not tell it",
        "libc": "neither the C library nor the interpreter tells it",
        "virtualisation": "no CPU flag, firmware name or clock tells whether this is a virtual one",
    }
    for key, value in found.items():
        if value is None:
            unknown[key] = reasons.get(key, "not known")
    return found


def operating_system(root: Path = ROOT) -> str | None:
    """Name and version, such as "Debian GNU/Linux 12 (bookworm)" or "macOS 15.5"."""
    if macos.is_darwin() and root == ROOT:
        return f"macOS {platform.mac_ver()[0]}"
    for path in ("etc/os-release", "usr/lib/os-release"):
        for line in (text(root, path) or "").splitlines():
            key, _, value = line.partition("=")
            if key == "PRETTY_NAME":
                return value.strip("\"'") or None
    return None


def kernel(root: Path = ROOT) -> str | None:
    """The kernel's release."""
    if root != ROOT:
        return text(root, "proc/sys/kernel/osrelease")
    return f"{platform.system()} {platform.release()}".strip() or None


def libc() -> str | None:
    """The C library of this interpreter, such as "glibc 2.36"."""
    if macos.is_darwin():
        return "libSystem"
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        version = None
    return version or " ".join(platform.libc_ver()).strip() or None


def virtualisation(root: Path = ROOT) -> str | None:
    """ "none", the hypervisor's name, "unnamed hypervisor", or None where nothing tells."""
    if macos.is_darwin() and root == ROOT:
        return {0: "none", 1: "unnamed hypervisor"}.get(
            macos.sysctl_int("kern.hv_vmm_present") or 0
        )
    listing = text(root, "proc/cpuinfo") or ""
    named = _hypervisor(root)
    flags = next((line for line in listing.splitlines() if line.startswith("flags")), None)
    if flags is not None:  # x86: the CPU itself says so
        return (named or "unnamed hypervisor") if " hypervisor" in flags else "none"
    if named:
        return named
    # Arm has no such flag: firmware with another maker's name means a real machine.
    maker = text(root, "sys/class/dmi/id/sys_vendor")
    return "none" if maker or text(root, "proc/device-tree/model") else None


def _hypervisor(root: Path) -> str | None:
    clocks = text(root, "sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    for word, name in CLOCKSOURCES.items():
        if word in clocks:
            return name
    if (text(root, "sys/hypervisor/type") or "") == "xen":
        return "xen"
    if "kvm" in (text(root, "proc/device-tree/hypervisor/compatible") or ""):
        return "kvm"
    maker = text(root, "sys/class/dmi/id/sys_vendor") or ""
    product = text(root, "sys/class/dmi/id/product_name") or ""
    firmware = f"{maker} {product}".lower()
    if ".metal" in firmware:  # whole EC2 machines carry the same maker's name
        return None
    return next((name for word, name in DMI.items() if word in firmware), None)


def container(root: Path = ROOT, variables: Mapping[str, str] = os.environ) -> str:
    """ "docker", "podman", "apptainer", "kubernetes", "lxc", … or "none" where no trace is seen."""
    if "APPTAINER_CONTAINER" in variables or "SINGULARITY_CONTAINER" in variables:
        return "apptainer"
    if "KUBERNETES_SERVICE_HOST" in variables:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    told = text(root, "run/systemd/container")
    if told:
        return told
    groups = text(root, "proc/self/cgroup") or ""
    marks = {"kubepods": "kubernetes", "/docker": "docker", "libpod": "podman", "/lxc": "lxc"}
    return next((name for mark, name in marks.items() if mark in groups), "none")


def physical_bytes(root: Path, unknown: dict[str, str]) -> int | None:
    """Memory that the kernel manages: what is installed, less one to three percent it keeps."""
    if macos.is_darwin() and root == ROOT:
        size = macos.sysctl_int("hw.memsize")
    else:
        size = meminfo(root).get("MemTotal")
    if size is None:
        unknown["memory_bytes"] = "neither /proc/meminfo nor sysctl hw.memsize tells it"
    return size


def numa_nodes(root: Path, unknown: dict[str, str]) -> int | None:
    """Number of NUMA nodes that hold memory."""
    if macos.is_darwin() and root == ROOT:
        return 1  # every Mac that runs this has uniform memory
    for name in ("has_memory", "online"):
        nodes = cpu_list(text(root, f"sys/devices/system/node/{name}"))
        if nodes:
            return len(nodes)
    unknown["numa"] = "the kernel describes no nodes under /sys/devices/system/node"
    return None
