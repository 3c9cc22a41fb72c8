#!/bin/sh
# What became of a PBS job, in the words of snakemake-executor-plugin-cluster-generic. A server that
# does not answer has not ended the job.
told=$(qstat -x -f "$1" 2>/dev/null) || { echo running; exit; }
case $told in
*"job_state = F"*"Exit_status = 0"*) echo success ;;
*"job_state = F"*) echo failed ;;
*) echo running ;;
esac
