"""Errors that a user can do something about: one clear line each, shown by the command line without a traceback."""


class AsrError(Exception):
    """Base of all errors that tell the user in one line what was wrong and what to do."""


class AudioError(AsrError):
    """A source of sound that cannot be opened or read."""


class ManifestError(AsrError):
    """A manifest or the audio that it names cannot be read."""


class ModelError(AsrError):
    """A model that is missing, incomplete or does not fit its configuration."""


class ConfigError(AsrError):
    """A configuration that names unknown keys or impossible values."""


class MicrophoneError(AsrError):
    """No microphone that can be listened to: none there, none of that name, in use, or no PortAudio."""


class DesktopError(AsrError):
    """A desktop that cannot be typed into or asked: none there, or a program for it is missing or fails."""
