"""Weights: rows that stand for several people, and classes that are rare."""

import matplotlib.pyplot as plt
import numpy as np

import cavity

random = np.random.default_rng(0)
dose = np.linspace(0.0, 4.0, 9)
treated = random.integers(5, 60, 9)
recovered = random.binomial(treated, 1.0 / (1.0 + np.exp(3.0 - 2.0 * dose)))

# a row for those who recovered at a dose, and one for those who did not
X = np.concatenate([dose, dose])[:, None]
outcome = np.repeat(["recovered", "ill"], 9)
people = np.concatenate([recovered, treated - recovered])
weighted = cavity.GPClassifier(random_state=0).fit(X, outcome, sample_weight=people)

# the same people, one row each
X_each, outcome_each = np.repeat(X, people, axis=0), np.repeat(outcome, people)
each = cavity.GPClassifier(random_state=0).fit(X_each, outcome_each)

grid = np.linspace(0.0, 4.0, 81)[:, None]
chances = [model.predict_proba(grid)[:, 1] for model in (weighted, each)]
apart = np.max(np.abs(chances[0] - chances[1]))
print(f"{weighted.n_rows_} rows of {people.sum()} people, and {each.n_rows_} rows of one each")
print(f"chances of recovery differ by less than 0.01: {apart < 0.01}")

# a table in which one class in ten is rare, as if both were as frequent
rare = random.normal(1.2, 1.0, 15), random.normal(-0.5, 1.0, 135)
signal, ill = np.concatenate(rare)[:, None], np.repeat(["yes", "no"], [15, 135])
for class_weight in (None, "balanced"):
    model = cavity.GPClassifier(class_weight=class_weight, random_state=0).fit(signal, ill)
    found = np.mean(model.predict(signal[:15]) == "yes")
    print(f"class_weight={class_weight}: {found:.0%} of the rare class are found")

plt.figure(figsize=(5, 3.5))
plt.scatter(dose, recovered / treated, 2.0 * treated, color="#0072b2", label="share, by people")
plt.plot(grid[:, 0], chances[0], color="#d55e00", label="chance by weighted rows")
plt.xlabel("dose")
plt.ylabel("recovered")
plt.legend(loc="upper left")
plt.show()
