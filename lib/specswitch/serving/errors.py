"""What can go wrong between a configuration and a running server, one class per cause.

A caller that only wants "bad input or bad server" catches `ServingError`; the command line turns
`PreflightError` (the user's input) into exit code 2 and the others into 1.
"""

from __future__ import annotations


class ServingError(RuntimeError):
    """Base of every error of this package."""


class PreflightError(ServingError):
    """Something asked for cannot work; found before anything slow was started. Names the value and the cure."""


class FlagError(PreflightError):
    """An SGLang server flag that this engine version does not know, or with an impossible value."""


class EnvironmentRefusedError(PreflightError):
    """A variable in the environment would change what is measured."""


class PortBusyError(PreflightError):
    """The port is taken."""


class ServerExitedError(ServingError):
    """The server's process ended by itself.

    `exit_code`: the code, or minus the signal's number. `log_tail`: the last lines of its log.
    """

    def __init__(self, exit_code: int, log_tail: str, when: str, log_path: str | None = None) -> None:
        how = f"with exit code {exit_code}" if exit_code >= 0 else f"killed by signal {-exit_code}"
        where = f" Log: {log_path}." if log_path else ""
        tail = f" Its last lines:\n{log_tail}" if log_tail else ""
        super().__init__(f"the server ended {how} {when}.{where}{tail}")
        self.exit_code = exit_code
        self.log_tail = log_tail


class ReadyTimeoutError(ServingError, TimeoutError):
    """The server lives but did not get ready in time."""


class ServerUnreachableError(ServingError, ConnectionError):
    """Nothing answers at the URL, or not in the expected way."""


class RuleRefusedError(ServingError, ValueError):
    """A running server did not take a change of its rule."""


class DraftMismatchError(ServingError):
    """The draft is never right: it is probably not the draft of this target."""


class IdentityError(ServingError):
    """The server that answers is not the one that was asked for."""


class PluginMissingError(IdentityError):
    """A stock SGLang answers: Specswitch is not loaded in its scheduler."""


class NotOurServerError(IdentityError):
    """Another server answers at our port."""


class VersionMismatchError(IdentityError):
    """The server runs another version of Specswitch."""


class PathMismatchError(IdentityError):
    """The scheduler runs another path than asked for."""


class WorkerClassMismatchError(IdentityError):
    """The scheduler holds an object of another worker class than the path and the rule ask for."""


class RuleMismatchError(IdentityError):
    """Threshold, hysteresis, dwell or sync rule differ from what was asked."""


class ShapeMismatchError(IdentityError):
    """Draft width, top-k or overlap differ from what was asked."""


class RankCountError(IdentityError):
    """Not every tensor parallel rank has reported."""
