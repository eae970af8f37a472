"""The notebooks in JupyterLab, as copies of the user's own."""
