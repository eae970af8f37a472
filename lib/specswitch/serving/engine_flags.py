"""A command whose own options stand before a double dash and the engine's behind it, and who mixes them is told how."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from specswitch.serving.engine_options import known_options
from specswitch.serving.errors import FlagError

FLAGS = click.argument("flags", nargs=-1, type=click.UNPROCESSED)


class EngineFlagsCommand(click.Command):
    """A click command that ends with `FLAGS`. Mixed up options are refused with the whole line as it should be."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As usual; an option on the wrong side of the double dash gets the hint."""
        given = list(args)  # click takes them away while it reads
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            if not _is_the_engines(unknown.option_name):
                raise
            hint = (
                f"{unknown.option_name} is one of SGLang's: put -- before the engine's own options:\n"
                f"  {self._in_order(given)}"
            )
            raise click.UsageError(hint, ctx) from None
        misplaced = [w for w in ctx.params.get("flags") or () if self._is_own(w) and not _is_the_engines(w)]
        if misplaced:
            hint = f"{misplaced[0]} is one of ours: put it before the --:\n  {self._in_order(given)}"
            raise click.UsageError(hint, ctx)
        return rest

    def _is_own(self, word: str) -> bool:
        return word.partition("=")[0] in self._takes_value()

    def _takes_value(self) -> dict[str, bool]:
        """Our options by name, and whether a value follows."""
        options = [p for p in self.params if isinstance(p, click.Option)]
        return {name: not p.is_flag for p in options for name in p.opts}

    def _in_order(self, words: Sequence[str]) -> str:
        """The same words as a shell line: our options, the double dash, everything else."""
        takes_value = self._takes_value()
        own: list[str] = []
        others: list[str] = []
        left = [word for word in words if word != "--"]
        while left:
            word = left.pop(0)
            side = own if self._is_own(word) else others
            side.append(word)
            if side is own and takes_value[word.partition("=")[0]] and "=" not in word and left:
                own.append(left.pop(0))
        return shlex.join(["specswitch", self.name or "", *own, "--", *others])


def _is_the_engines(word: str) -> bool:
    try:
        return word.partition("=")[0] in known_options()
    except FlagError:  # no engine here: whatever is not ours may be its
        return True
