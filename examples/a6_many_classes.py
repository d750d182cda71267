"""Three classes: two powers, decisions of least expected cost, and rows of uncertain class."""

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

import cavity

data = load_iris()
X, y = data.data[:, 1:3], data.target_names[data.target]  # width of sepals, length of petals
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=60, random_state=0)

# power 1 is nested EP, power 0 variational inference; classes stay dependent in both
for power in (1.0, 0.0):
    model = cavity.GPClassifier(power=power, random_state=0).fit(X_train, y_train)
    loss = -model.log_predictive_density(X_test, y_test).mean()
    print(f"power {power:g}   log evidence {model.log_evidence_:.2f} nats, log loss {loss:.3f}")

# rows are true classes, columns decisions: a virginica must not be taken for a versicolor
costs = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 20.0, 0.0]])
for name, given in (("likeliest class", None), ("least cost", costs)):
    bayes_decision = model.predict(X_test, given)
    missed = np.sum((y_test == "virginica") & (bayes_decision == "versicolor"))
    print(f"{name:16} {np.mean(bayes_decision == y_test):.1%} right, {missed} virginica missed")

chance = model.predict_proba(X_test)
print("\nthe least certain rows:", *model.classes_)
for row in np.argsort(chance.max(axis=1))[:3]:
    print(X_test[row], chance[row].round(2), "is", y_test[row])
print("far from all rows:", model.predict_proba([[9.0, 12.0]])[0].round(2))
