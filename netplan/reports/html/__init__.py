"""Reports as single HTML files that load nothing: tables, charts and drawings."""
