"""The one tree of errors that a person may meet.

Every message is one sentence that names the thing, the reason and the way out. The command line prints it
on stderr and exits with `exit_code`; the screen shows it as a notice. Anything else that is raised is a bug.
"""


class SinkchatError(Exception):
    """Something failed that was asked for correctly."""

    exit_code = 1
    title = "Failed"


class UsageError(SinkchatError):
    """Wrong use or wrong input: a flag, a setting, a command, a file."""

    exit_code = 2
    title = "Not understood"


class ModelError(SinkchatError):
    """A model could not be found, fetched or loaded."""

    title = "Model"


class ModelRefused(ModelError):
    """A model was found, and sinkchat cannot run it exactly."""

    exit_code = 2
    title = "Model refused"


class CacheError(UsageError):
    """A change of policy, window or sinks that cannot be made now."""

    title = "Cache"


class JournalError(SinkchatError):
    """A session's journal could not be written or read."""

    title = "Journal"
