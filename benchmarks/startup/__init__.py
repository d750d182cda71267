"""First fits of small tables, of `cavity` beside scikit-learn and GPflow, in fresh processes.

Nearly all of a first fit is compilation, which other benchmarks leave out. Every process runs one
job on one thread of one core, and libraries take turns. Processor seconds are of a part of the
job, imports left out, and of the whole process, imports included.

- `with_cavity`, `with_gpflow`, `with_sklearn`: a function for each job that the library can do.
- `worker`: the process of one library and one job.
- `processes`: runs a process, and gives the processor seconds of the whole of it.
- `commands`: the command line, from an empty folder of compiled programs.
- `sessions`: imports, predictions, overhead of Python.
"""
