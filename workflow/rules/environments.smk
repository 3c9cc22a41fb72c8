# All of the study's environments, without measuring: `snakemake --cores 1 environments`. Under
# --use-conda, `snakemake --cores 1 --use-conda --conda-create-envs-only` does the same.


include: "common/environments.smk"


rule environments:
    log:
        f"{LOGS}/environments.log",
    localrule: True
    conda:
        NO_ENVIRONMENT
    params:
        command=build_all_command,
    shell:
        "({params.command}) 2> >(tee {log:q} >&2)"
