"""An EAGLE-3 head for a target that exists already: its own prompts, its own answers, training, acceptance.

`python -m specswitch.models.train.head --target DIR --out DIR --seconds N` runs it all.
"""
