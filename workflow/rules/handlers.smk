# Before the first job: the folder's lock. After a failure: a page that shows what was measured.


onstart:
    if blocks() and not hold_folder():
        raise WorkflowError("another gemmgrid workflow is running in this folder")


onerror:
    # A lost job blocks everything behind it: make the report of what is there.
    if blocks():
        for what in ("all", "summary"):
            subprocess.run(reporting_now(what, "--out", PAGE), check=False)
