"""The reading page: a small web server that shows a store's runs and serves their reports."""
