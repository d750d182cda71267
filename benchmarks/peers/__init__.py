"""`cavity` beside other libraries: each in an environment and a process of its own, taking turns.

One module for each library, `with_...`, with the same functions as far as the library can do
them. `problem` is a dictionary of numpy arrays, see `problems`; values are log evidences or lower
bounds of them.

- `evaluation(problem, method)`: a function that computes value and gradient and gives the value.
- `step(problem)`: one that makes a step of Adam on the next minibatch.
- `deep(problem, method)`: as `evaluation`, of a deep GP on a minibatch; `step` moves as well.
- `classify(problem, method)`: one that runs EP of a probit classifier to convergence.
- `prediction(problem, method)`: one that gives mean and variance of f at `X_test`.
- `past(problem, method)`: as `evaluation`, of new rows after earlier ones, whose evidence does not
  count.
- `conditioning(problem, method)`: one that learns new rows at given parameters, and then gives
  mean and variance of f at `X_test`.
- `stream(problem)`: learns batches one after the other; test error, NLPD and seconds.
- `linear(problem, method)`: learns a sparse linear regression; coefficients and seconds.
- `network(problem)`: learns a network; scores of test rows and seconds.
- `sweeps(problem)`, `resident(problem)`: what a sweep of a network takes; a fit that is cut short.
- `gains(problem)`: by how much each candidate would lower the mean variance of f at `X_test`.
- `fit(problem, record, iterations)`: fits, calls `record(value)` on the way, stops where that says
  that the time is over, and gives mean and variance of y at `X_test`.

The modules but `with_cavity` import nothing of `cavity`: they run where only their library is.
"""
