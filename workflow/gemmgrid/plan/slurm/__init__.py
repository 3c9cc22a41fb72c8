"""What must be known before cells are sent to a cluster: what it has, whether SLURM would take a
machine's allocations, and how much would be sent.

`ask` runs SLURM's commands, `site` reads what the cluster has, `checks` holds the entries of
`config/machines.yaml` against it, `resources` says what cells need, `forecast` how many allocations
and node-hours it would be. Nothing here submits, changes or cancels anything: sending is
`snakemake_executor_plugin_gemmgrid_slurm`.
"""
