"""Fixed points of the sites, and what finds them where sweeps do not."""
