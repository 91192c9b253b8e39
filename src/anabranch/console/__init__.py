"""The console: a web page, an HTTP API and metrics of an engine or of filters, served by the program that runs them."""
