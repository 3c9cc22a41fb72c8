# Before the first job: the folder's lock. Afterwards: what only this start had a use for is removed;
# and after a failure a page shows what was measured.


onstart:
    if (blocks() or plan_is_due()) and not hold_folder():
        raise WorkflowError("another gemmgrid workflow is running in this folder")


onsuccess:
    forget_start()


onerror:
    keep_what_is_finished()
    forget_start()
    # A lost job blocks everything behind it: make the report of what is there.
    if blocks():
        for what in ("report", "summary"):
            subprocess.run(reporting_now(what, "--out", PAGE), check=False)
