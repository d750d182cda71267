"""The run-time type checker that the import hook of conftest.py puts on every function."""

from beartype import BeartypeConf, beartype

# An int is welcome where a float is asked for, as for every static type checker.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
