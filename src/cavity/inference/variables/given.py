"""Variables whose belief is what they receive."""

from typing import TypeVar

from cavity.inference.graph.base import AbstractBelief, AbstractVariable

B = TypeVar("B", bound=AbstractBelief)


class Given(AbstractVariable):
    """A variable of which a factor stores the belief.

    The terms of the energy that are the variable's come with that store: those of a tied site with
    its cavity, those of a latent input with its divergence from the prior.
    """

    def belief(self, messages: B) -> B:
        return messages
