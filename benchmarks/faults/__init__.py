"""Faults of processes, disks and files during fits on several processes."""
