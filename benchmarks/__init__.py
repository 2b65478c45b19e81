"""How fast, against the same training loop written well in PyTorch: `make bench`.

Every workload is a module with a `workloads(quick)` that is listed in `registry.py`. Both arms run
in one process on one core, in turns; torch's loop is timed on some hundred warm steps and
multiplied by the steps of the job; on those steps the two trajectories are compared.
"""
