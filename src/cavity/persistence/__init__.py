"""Models, checkpoints and their files on disk."""
