"""Three classes: two powers, decisions of least expected cost, and rows of uncertain class."""

import matplotlib.pyplot as plt
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

print("far from all rows:", model.predict_proba([[9.0, 12.0]])[0].round(2))

# the three probabilities as the shares of red, green and blue
width, length = np.meshgrid(np.linspace(1.8, 4.6, 60), np.linspace(0.5, 7.5, 60))
colours = 0.3 + 0.7 * model.predict_proba(np.column_stack([width.ravel(), length.ravel()]))
plt.figure(figsize=(5, 4))
plt.imshow(colours.reshape(60, 60, 3), extent=(1.8, 4.6, 0.5, 7.5), origin="lower", aspect="auto")
for label, mark in zip(model.classes_, "o^s", strict=True):
    rows = y_train == label
    plt.plot(*X_train[rows].T, mark, color="white", mec="black", ms=5, label=label)
plt.xlabel("width of sepals, cm")
plt.ylabel("length of petals, cm")
plt.legend()
plt.show()
