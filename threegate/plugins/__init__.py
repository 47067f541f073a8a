"""Everything that the core is complete without: a folder for each plugin of core/plugins.py."""
