"""A table of measured points -> plotly figures. No I/O, no raw traces: every mark is an aggregate."""
