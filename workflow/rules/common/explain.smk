# The backend that `explain` asks about, and the command that explains.

EXPLAINED = PLAN.registry.get(ASKED.get("backend", "numpy-openblas"))
if EXPLAINED is None:
    raise WorkflowError(
        f"--config backend: found {ASKED['backend']!r}, which is no backend of config/backends.yaml. "
        f"Allowed: {', '.join(sorted(PLAN.registry))}"
    )


def explanation(wildcards, threads):
    """The command that explains what --config asks about."""
    return [
        *(*OURS, "gemmgrid.measure.explain"),
        *("--python", interpreter(EXPLAINED, DEPLOY, ROOT), "--device", EXPLAINED.device),
        *("--threads", str(ASKED.get("threads", 1))),
        *("--variables", json.dumps(dict(EXPLAINED.variables))),
        *("--", "--expr", str(ASKED.get("expr", "A @ B")), "--backend", EXPLAINED.name),
        *("--adapter", EXPLAINED.adapter, "--options", json.dumps(dict(EXPLAINED.options))),
        *(("--blas", EXPLAINED.blas) if EXPLAINED.blas else ()),
        *("--dtype", str(ASKED.get("dtype", "float32")), "--shape", str(ASKED.get("shape", 512))),
    ]
