include: "workflow/Snakefile"


# Snakemake takes the default target from this file only, never from an included one.
rule gemmgrid:
    input:
        rules.all.input,
