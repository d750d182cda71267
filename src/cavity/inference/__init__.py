"""Floor 2: the engine. One energy, one site update, and the schedules that use them."""
