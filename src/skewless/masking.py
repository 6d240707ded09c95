"""Secrets stay out of what people and programs read: errors, logs, reports."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:  # which older versions of Python cannot subscript
    _Adapter = logging.LoggerAdapter

_USER: Final = re.compile(
    r"""(?<=://)(
        [^\s/@]*@               # user, or user and password, as they should be written
        | [^\s/@:]*:(?!\d+/)[^\s@]*@   # a password with a slash in it; host:9000/ is none
    )""",
    re.VERBOSE,
)
_WORDS: Final = "key|secret|token|password|credential|sig"
_OPTION: Final = re.compile(rf"(?i)([?&;][^=&;\s]*(?:{_WORDS})[^=&;\s]*=)[^&;\s'\"]+")
_SETTING: Final = re.compile(rf"(?i){_WORDS}|jaas")


def without_secrets(text: str) -> str:
    """Return a text in which addresses have no user, no password, and no option that sounds like a secret.

    >>> without_secrets("cannot open s3://id:a/b@bucket/x?region=eu&secret_key=abc, no such host")
    'cannot open s3://bucket/x?region=eu&secret_key=*** no such host'
    >>> without_secrets("hdfs://host:9000/a@b"), without_secrets("/a@b/c")
    ('hdfs://host:9000/a@b', '/a@b/c')
    """
    return _OPTION.sub(r"\1***", _USER.sub("", text))


def is_secret(name: str, value: str) -> bool:
    """Whether a setting sounds like a secret, or has an address with one.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key", "abc"), is_secret("spark.app.name", "abc")
    (True, False)
    >>> is_secret("spark.ledger", "s3://id:abc@bucket/x")
    True
    """
    return _SETTING.search(name) is not None or without_secrets(value) != value


class _Masked(_Adapter):
    def log(self, level: int, msg: object, *args: object, **more: Any) -> None:
        if self.isEnabledFor(level):
            plain = (arg if isinstance(arg, int | float) else without_secrets(str(arg)) for arg in args)
            self.logger.log(level, msg, *plain, stacklevel=2, **more)


def masked_logger(name: str) -> _Adapter:
    """Return a logger whose messages have no secrets of the addresses in their arguments."""
    return _Masked(logging.getLogger(name), {})
