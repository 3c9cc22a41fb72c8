# Files that are named on the command line as targets become rules of that name. So
# `-f results/<machine>/<backend>/<cell>.jsonl` measures one cell again, though its history is no
# output of a rule, and the page or a table is made of what is still to be measured.


for file in commands.files_named(sys.argv[1:], CELLS, [PAGE, COMPLETE, STAMP, *TABLES]):

    rule:
        name:
            file
        input:
            one_cell if is_history(file) else finished if "complete" in file else shown,
