"""What must be known before cells are sent to a cluster: what it has, whether a machine's entry
fits it, and how much would be sent.

`ask` runs SLURM's commands, `site` reads what the cluster has, `preflight` holds the entries of
`config/machines.yaml` against it, `forecast` says how many allocations and node-hours it would be.
Sending itself is Snakemake's: nothing here submits, changes or cancels anything.
"""
