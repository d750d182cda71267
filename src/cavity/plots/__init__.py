"""Pictures of models in one line.

Such as:

    model = cavity.GPRegressor().fit(X, y)
    cavity.plots.function(model, X, y)
    cavity.plots.calibration(model, X_test, y_test, ax=ax)

`function` is `FunctionDisplay.from_estimator`, and the others are those of the other displays.
Each takes a fitted estimator (also one of `cavity.load`), a result of `cavity.fit` or
`cavity.infer`, or a posterior, and gives a display, as scikit-learn has them: its numbers are
attributes, `display.plot(ax=...)` draws it again, and `ax_`, `axes_` and `figure_` are what was
drawn on. Everything is in the units of the data. matplotlib is imported when something is drawn.

Fonts, sizes and backgrounds are those of matplotlib's settings. Pictures of plain arrays are in
`cavity.drawing`.
"""

import lazy_loader

# `__init__.pyi` lists the names, which are imported when they are first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
