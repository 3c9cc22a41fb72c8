# Cells of machines behind SLURM: one job a cell and round, many jobs an allocation, one after another.
# A job leaves its run beside the history; `gather`, on the submit host, appends it.


include: "common/slurm.smk"
include: "common/forecast.smk"
include: "common/campaign.smk"


for entry in PLAN.backends.values():

    rule:
        name:
            f"measure_{entry.name}"
        output:
            temp(PART),
        log:
            f"{LOG}.{{round}}",
        wildcard_constraints:
            backend=re.escape(entry.name),
            round="[0-9]+",
        priority: order_in_round
        group:
            allocation
        conda:
            conda_file(entry)
        envmodules:
            *entry.modules,
        threads: cpus_of
        resources:
            slurm_partition=asked_for("partition"),
            constraint=asked_for("constraint"),
            gres=asked_for("gres"),
            slurm_account=asked_for("account"),
            qos=asked_for("qos"),
            slurm_extra=other_words,
            cpus_per_task=cpus_of,  # whatever --cores makes of the threads
            mem_mb=memory,
            runtime=minutes,
            slot=1,
            shared=beside_others,
        params:
            spec=spec,
            command=round_command,
            keep=kept_file,
        shell:
            RUN_SENT
