"""Handwritten digits: a convolutional Gaussian process, and the images it is least sure of."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import cavity

data = load_digits()
rows = np.isin(data.target, (3, 5, 8))
images, labels = data.images[rows] / 16.0, data.target[rows]
train, test = slice(0, 150), slice(150, 350)

model = cavity.ConvGPClassifier(
    kernel="conv3", parts="weighted", n_inducing=30, max_iterations=20, random_state=0
)
model.fit(images[train], labels[train])
chance = model.predict_proba(images[test])
print(f"right {model.score(images[test], labels[test]):.1%} of 200")

unsure = np.argsort(chance.max(axis=1))[:6]
figure, panels = plt.subplots(1, 6, figsize=(9, 2))
for axes, row in zip(panels, unsure, strict=True):
    likely = model.classes_[np.argmax(chance[row])]
    axes.imshow(images[test][row], cmap="gray_r")
    axes.set_title(f"a {labels[test][row]}\n{likely} by {chance[row].max():.0%}", fontsize=9)
    axes.axis("off")
plt.show()
