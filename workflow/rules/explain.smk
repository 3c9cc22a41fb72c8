# What runs under one expression, and how we know it:
#   snakemake --cores 1 explain --config expr="A @ B.T" backend=numpy-openblas dtype=float32 shape=512


include: "common/explain.smk"


rule explain:
    log:
        f"{LOGS}/explain.log",
    localrule: True
    conda:
        conda_file(EXPLAINED)
    params:
        command=explanation,
    shell:
        "{params.command:q} 2> >(tee {log:q} >&2)"
