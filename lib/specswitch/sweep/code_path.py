"""The code-path notebook's parameters, and what its cells ask for: the way of the flags, its proof, the mistake."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, ValidationError

from specswitch.config import NonNegative, Rule, Strict
from specswitch.explain import explain
from specswitch.models import pair
from specswitch.serving import wrong_file
from specswitch.serving.argv import rule_flags
from specswitch.serving.code_path import EAGLE3, Compared, Foretold, environment, foretell, prove
from specswitch.serving.errors import PreflightError
from specswitch.serving.flags import parse_flags
from specswitch.sweep.namespace import plain_values
from specswitch.sweep.parameters import ParameterError

# Enough for one request at a time, and quick to start.
_SMALL = (("max_running_requests", "--max-running-requests", "4"), ("page_size", "--page-size", "1"))


class CodePathParameters(Strict):
    """Parameters of the code-path notebook, all plain values.

    `flags`: SGLang server flags, one list entry a word; what they leave open (models, device, sizes) is the
    bundled pair on the CPU. `spec_v2_env`: SGLANG_ENABLE_SPEC_V2 of the server, None: unset. `threshold`: largest
    batch that speculates, None: no rule. `live`: start a server with these flags. `replay`: start two more for the
    wrong-file mistake. `ready_timeout_s`: seconds for each to get ready.
    """

    NOTEBOOK: ClassVar[str] = "00-code-path.ipynb"

    flags: list[str] = Field(default=list(EAGLE3))
    spec_v2_env: str | int | None = None
    threshold: NonNegative | None = 4
    live: bool = True
    replay: bool = True
    ready_timeout_s: Annotated[float, Field(gt=0)] = 300.0

    @classmethod
    def of_namespace(cls, namespace: Mapping[str, Any]) -> Self:
        """The parameters that a notebook's cells have set so far: pass `globals()`.

        Raises:
            ParameterError: an unknown name or an impossible value.
        """
        try:
            return cls.model_validate(plain_values(namespace))
        except ValidationError as problem:
            known = ", ".join(cls.model_fields)
            raise ParameterError(f"parameter {explain(problem)} (known are {known})") from problem

    @property
    def spec_v2(self) -> str | None:
        """SGLANG_ENABLE_SPEC_V2 as the server will see it; a number from a command line is its text."""
        return None if self.spec_v2_env is None else str(self.spec_v2_env)

    def argv(self) -> list[str]:
        """All server flags: those given, the rule, and what they leave open.

        Raises:
            FlagError: the engine does not know one.
            ParameterError: a rule is given twice.
        """
        given = parse_flags(self.flags)
        if given.dynamic and self.threshold is not None:
            raise ParameterError(
                f"flags hold a switching rule and threshold = {self.threshold}: set threshold = None"
            )
        argv = [*self.flags, *rule_flags(Rule(threshold=self.threshold))]
        if given.model_path is None:
            argv += ["--model-path", str(pair.target_dir())]
            if given.speculative_algorithm is not None and given.speculative_draft_model_path is None:
                argv += ["--speculative-draft-model-path", str(pair.draft_dir())]
            if given.device is None:
                argv += ["--device", "cpu"]
        for field, flag, value in _SMALL:
            argv += [flag, value] if getattr(given, field) is None else []
        return argv

    def look(self) -> Foretold:
        """What these flags give, nothing started. Raises as `argv`."""
        return foretell(self.argv(), environment(os.environ, self.spec_v2))

    def prove(self, seen: Foretold) -> list[Compared] | str:
        """Start a server with the flags of `seen` and compare; or a sentence that says why none was started.

        Raises:
            ServingError: it did not come up, or is not what was foretold.
        """
        if not self.live:
            return "live = False: no server was started."
        with tempfile.TemporaryDirectory(prefix="specswitch-code-path-") as folder:
            shell = environment(os.environ, self.spec_v2)
            try:
                return prove(seen, shell, Path(folder) / "server.log", self.ready_timeout_s)
            except PreflightError as problem:
                return f"No server was started, for it would not run: {problem}"

    def replay_mistake(self) -> list[wrong_file.Outcome]:
        """The wrong-file mistake on the bundled pair, whatever `flags` are; empty if not asked for."""
        if not self.replay:
            return []
        with tempfile.TemporaryDirectory(prefix="specswitch-wrong-file-") as folder:
            argv = CodePathParameters(threshold=None).argv()
            return wrong_file.replay(argv, os.environ, Path(folder), ready_timeout_s=self.ready_timeout_s)
