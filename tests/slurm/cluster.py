"""A real SLURM on this host, on loopback: munge, MariaDB, slurmdbd, slurmctld and five slurmd.

    python -m tests.slurm.cluster start FOLDER
    python -m tests.slurm.cluster stop FOLDER

Root only. Debian's packages (PACKAGES) must be installed; nothing of them starts by itself. Each
node runs in a namespace of its own for the host's name and for gemmgrid's measuring lock, as real
nodes have. SLURM's files are linked into /etc/slurm, because the jobstep plugin drops SLURM_CONF.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from tests.slurm import nodes

PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"),
    *("slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server"),
)
NEEDED = ("slurmctld", "slurmd", "slurmdbd", "sbatch", "sacct", "munged", "mariadbd", "unshare")
ETC = Path("/etc/slurm")
HOSTS, MARK = Path("/etc/hosts"), "# gemmgrid's test cluster"
LOCK = Path("/tmp/gemmgrid-measuring.lock")
ALONE = Path("/run/gemmgrid-test-cluster.lock")
MUNGE = Path("/run/munge/munge.socket.2")
CONTROLLERS = ("memory/tasks", "cpuset/tasks", "freezer/tasks")


class ClusterError(RuntimeError):
    """The cluster did not start; the text says which part, with the end of its log."""


def missing() -> str | None:
    """Why no cluster can be started here; None where one can."""
    lacking = [name for name in NEEDED if shutil.which(name, path=_path()) is None]
    if lacking:
        return f"no SLURM here ({', '.join(lacking)} not found): apt-get install " + " ".join(
            PACKAGES
        )
    if (ETC / "slurm.conf").exists() and not _is_ours():
        return f"this host has a SLURM of its own ({ETC}/slurm.conf), which is left alone"
    return None if os.geteuid() == 0 else "a SLURM of our own needs root"


def _is_ours() -> bool:
    """Whether the host's configuration is that of a cluster of these tests."""
    link = ETC / "slurm.conf"
    try:
        return link.is_symlink() and f"ClusterName={nodes.NAME}\n" in link.read_text()
    except OSError:
        return False


class Cluster:
    """The cluster in a folder: configuration, state, logs and process ids."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self._alone: IO[str] | None = None

    def start(self) -> None:
        """Bring everything up; returns when all nodes are idle. ClusterError after a minute.

        Ports and /etc/slurm are there once: another test run's cluster is waited for, what a
        killed one left is ended.
        """
        self._alone = ALONE.open("w", encoding="utf-8")
        self._wait("another test run's cluster to end", self._is_alone, 900)
        if _is_ours():
            Cluster((ETC / "slurm.conf").readlink().parents[1]).stop()
        for name in ("etc", "state", "log", "run", "mysql"):
            (self.base / name).mkdir(parents=True, exist_ok=True)
        self._configure()
        self._start_munge()
        self.start_database()
        self.start_accounting()
        self.start_controller()
        for name in nodes.NODES:
            self.start_node(name)
        self._wait("all nodes idle", lambda: self.idle() == set(nodes.NODES), 60)

    def stop(self) -> None:
        """End all that `start` started, in order, and take its links away."""
        run("scancel", "-u", "root", check=False)
        self._wait("no job left", lambda: not self.jobs(), 20, strict=False)
        for name in nodes.NODES:
            self.end(f"slurmd-{name}")
        for daemon in ("slurmctld", "slurmdbd", "mariadbd", "munged"):
            self.end(daemon)
        for folder in sorted(Path("/sys/fs/cgroup").glob("*/slurm*"), reverse=True):
            for inner in sorted(folder.rglob("*"), reverse=True):
                if inner.is_dir():
                    _remove_folder(inner)
            _remove_folder(folder)
        for file in (self.base / "etc").glob("*.conf"):
            link = ETC / file.name
            if link.is_symlink() and link.readlink() == file:
                link.unlink()
        kept = [line for line in HOSTS.read_text(encoding="utf-8").splitlines() if MARK not in line]
        # Not replaced: it may be a mount.
        HOSTS.write_text("\n".join(kept) + "\n", encoding="utf-8")
        if self._alone:
            self._alone.close()

    def _is_alone(self) -> bool:
        assert self._alone
        try:
            fcntl.flock(self._alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def start_database(self) -> None:
        data, socket = self.base / "mysql", self.base / "run/my.sock"
        if not (data / "mysql").exists():
            run(
                *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
                *("--skip-test-db", "--auth-root-authentication-method=socket"),
            )
        options = [
            *("--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}"),
            *(f"--pid-file={self.base}/run/mariadbd.pid", "--bind-address=127.0.0.1"),
            *(f"--port={nodes.DATABASE_PORT}", "--skip-log-bin", "--skip-name-resolve"),
            *("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M"),
            *("--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=0"),
        ]
        with (self.base / "log/mariadb.log").open("ab") as log:
            subprocess.Popen(
                ["mariadbd", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PATH": _path()},
            )
        client = ("--no-defaults", "-S", str(socket))
        self._wait("MariaDB", lambda: succeeds("mariadb-admin", *client, "ping"), 30)
        run(
            *("mariadb", *client, "-e"),
            "create database if not exists slurm_acct_db; create user if not exists "
            f"slurm@'127.0.0.1' identified by '{nodes.PASSWORD}'; "
            "grant all on slurm_acct_db.* to slurm@'127.0.0.1'",
        )

    def start_accounting(self) -> None:
        run("slurmdbd")
        self._wait("slurmdbd", lambda: succeeds("sacctmgr", "-n", "show", "cluster"), 30)

    def start_controller(self) -> None:
        run("slurmctld")
        self._wait("slurmctld", lambda: succeeds("scontrol", "ping"), 30)

    def start_node(self, name: str) -> None:
        lock = self.base / "run" / f"measuring-{name}.lock"
        for file in (lock, LOCK):
            file.touch()
        script = f"mount --bind {lock} {LOCK} && hostname {name} && exec slurmd -N {name}"
        run("unshare", "--uts", "--mount", "sh", "-c", script)

    def end(self, daemon: str, number: signal.Signals = signal.SIGTERM) -> None:
        """End one daemon by its process id and wait until it is gone."""
        file = Path("/run/munge/munged.pid") if daemon == "munged" else None
        file = file or self.base / "run" / f"{daemon}.pid"
        try:
            pid = int(file.read_text())
            os.kill(pid, number)
        except (OSError, ValueError):
            return
        self._wait(f"{daemon} gone", lambda: _is_gone(pid), 20, strict=False)
        file.unlink(missing_ok=True)

    def crash_node(self, name: str) -> None:
        """Power off: the node's daemon and everything that runs on the node are gone at once."""
        daemon = int((self.base / "run" / f"slurmd-{name}.pid").read_text())
        # All that runs on a node shares the namespace of its hostname.
        host = Path(f"/proc/{daemon}/ns/uts").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "ns/uts").readlink() == host:
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue  # it has ended meanwhile
        self._wait(f"{name} gone", lambda: _is_gone(daemon), 20)

    def idle(self) -> set[str]:
        rows = run("sinfo", "-h", "-N", "-o", "%N %T", check=False).splitlines()
        return {row.split()[0] for row in rows if row.endswith(" idle")}

    def jobs(self) -> list[str]:
        """Ids of the jobs that wait or run."""
        return run("squeue", "-h", "-o", "%i", check=False).split()

    def wait_for_job(self, node: str, seconds: float = 150) -> str:
        """The id of the job that runs on a node, once there is one."""
        found: list[str] = []

        def look() -> bool:
            found[:] = run("squeue", "-h", "-t", "R", "-w", node, "-o", "%i", check=False).split()
            return bool(found)

        self._wait(f"a job on {node}", look, seconds)
        return found[0]

    def revive(self) -> None:
        """Every node and daemon back to work, whatever a test did to them."""
        run("scancel", "-u", "root", check=False)
        for name in nodes.NODES:
            if not self._runs(f"slurmd-{name}"):
                self.start_node(name)
        down = "State=RESUME"
        for name in nodes.NODES:
            run("scontrol", "update", f"NodeName={name}", down, check=False)
        self._wait("all nodes idle", lambda: self.idle() == set(nodes.NODES), 60)

    def _runs(self, daemon: str) -> bool:
        try:
            return not _is_gone(int((self.base / "run" / f"{daemon}.pid").read_text()))
        except (OSError, ValueError):
            return False

    def _configure(self) -> None:
        cgroups = all(os.access(f"/sys/fs/cgroup/{name}", os.W_OK) for name in CONTROLLERS)
        files = {
            "slurm.conf": nodes.slurm_conf(self.base, cgroups),
            "gres.conf": nodes.gres_conf(),
            "slurmdbd.conf": nodes.slurmdbd_conf(self.base),
            **({"cgroup.conf": nodes.cgroup_conf()} if cgroups else {}),
        }
        ETC.mkdir(exist_ok=True)
        for name, content in files.items():
            file = self.base / "etc" / name
            file.write_text(content)
            file.chmod(0o600 if name == "slurmdbd.conf" else 0o644)
            link = ETC / name
            link.unlink(missing_ok=True)
            link.symlink_to(file)
        if MARK not in HOSTS.read_text(encoding="utf-8"):
            with HOSTS.open("a", encoding="utf-8") as hosts:
                hosts.write(f"127.0.0.1 {' '.join(nodes.NODES)} {MARK}\n")
        for name in nodes.NODES:
            (self.base / "spool" / name).mkdir(parents=True, exist_ok=True)

    def _start_munge(self) -> None:
        if MUNGE.exists() and succeeds("munge", "-n"):
            return
        run("install", "-d", "-o", "munge", "-g", "munge", "-m", "755", "/run/munge")
        run("runuser", "-u", "munge", "--", "munged", "--force")
        self._wait("munge", lambda: succeeds("munge", "-n"), 20)

    def _wait(self, what: str, ready: Callable[[], bool], seconds: float, strict: bool = True):
        end = time.monotonic() + seconds
        while not ready():
            if time.monotonic() > end:
                if strict:
                    raise ClusterError(f"waited {seconds:.0f} s for {what}\n{self._logs()}")
                return
            time.sleep(0.1)

    def _logs(self) -> str:
        tails = [
            f"== {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            for log in sorted((self.base / "log").glob("*.log"))
        ]
        return "\n".join([run("sinfo", "-N", "-l", check=False), *tails])


def run(*command: str, check: bool = True) -> str:
    """Run a command of the system for at most a minute; what it printed."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": _path()},
    )
    if check and done.returncode:
        raise ClusterError(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout


def succeeds(*command: str) -> bool:
    try:
        run(*command)
    except (ClusterError, OSError, subprocess.TimeoutExpired):
        return False
    return True


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has, whoever should have waited for it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return True
    return "\nState:\tZ" in status


def _remove_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass  # a control group of somebody else's, or one that is not empty yet


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("start", "stop"):
        print(__doc__)
        return 2
    problem = missing()
    if problem:
        print(problem, file=sys.stderr)
        return 1
    cluster = Cluster(Path(arguments[1]))
    cluster.start() if arguments[0] == "start" else cluster.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
