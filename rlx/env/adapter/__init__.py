"""How the environments of other packages are played (rlx.env.foreign): one module each, loaded where the package is."""
