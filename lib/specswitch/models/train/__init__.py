"""The code that made the tiny pair: text, target, self-distilled text, draft, evaluation.

`python -m specswitch.models.train --out DIR` runs it all. Bounded by time, so not bit-reproducible.
"""
