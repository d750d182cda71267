"""`cavity` beside other libraries: each in an environment and a process of its own, taking turns.

One module for each library, `with_...`, with the same functions as far as the library can do
them. `problem` is a dictionary of numpy arrays, see `problems`; values are log evidences or lower
bounds of them.

- `evaluation(problem, method)`: a function that computes value and gradient and gives the value.
- `step(problem)`: one that makes a step of Adam on the next minibatch.
- `classify(problem, method)`: one that runs EP of a probit classifier to convergence.
- `prediction(problem, method)`: one that gives mean and variance of f at `X_test`.
- `fit(problem, record, iterations)`: fits, calls `record(value)` on the way, stops where that says
  that the time is over, and gives mean and variance of y at `X_test`.

The modules import nothing of `cavity` or of each other: they run where only their library is.
"""
