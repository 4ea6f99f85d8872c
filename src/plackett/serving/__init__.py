"""Export of fitted models to search engines and other libraries, and serving over HTTP."""
