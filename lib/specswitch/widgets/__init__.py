"""The live notebook: the only room that imports ipywidgets. What has no widget in it is tested without."""
