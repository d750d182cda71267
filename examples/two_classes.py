"""Two-class classification with text labels, and the evaluation of class probabilities."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import cavity

X, benign = load_breast_cancer(return_X_y=True)
y = np.where(benign == 1, "benign", "malignant")
X_train, X_test, y_train, y_test = train_test_split(
    X[:, :4], y, train_size=200, test_size=300, random_state=0
)

model = cavity.GPClassifier(power=0.5, random_state=0).fit(X_train, y_train)
chance = model.predict_proba(X_test)

print(f"log evidence   {model.log_evidence_:.1f} nats ({model.message_})")
print(f"accuracy       {model.score(X_test, y_test):.1%}")
print(f"log loss       {-model.log_predictive_density(X_test, y_test).mean():.3f} nats per row")
sure = chance.max(axis=1) > 0.9
right = np.mean((model.predict(X_test) == y_test)[sure])
print(f"above 90 %     in {sure.mean():.0%} of the rows, and right in {right:.1%} of those")

plt.figure(figsize=(6, 3))
for label in model.classes_:
    plt.hist(chance[y_test == label, 1], np.linspace(0, 1, 21), alpha=0.6, label=label)
plt.xlabel("probability of malignant")
plt.ylabel("test rows")
plt.legend(title="diagnosis")
plt.show()
