"""What Monty 1.4.0 lacks of Python 3.11. Written by scripts/probe_monty.py.

Monty was asked for each name. Code is checked before it is approved, so it cannot be run to find out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from threegate.request.command.programs import names

MISSING_BUILTINS: Final = names(
    """
    BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError
    ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError DeprecationWarning
    EOFError EncodingWarning EnvironmentError ExceptionGroup FloatingPointError FutureWarning GeneratorExit
    IOError ImportWarning IndentationError InterruptedError PendingDeprecationWarning ProcessLookupError
    ReferenceError ResourceWarning RuntimeWarning StopAsyncIteration SyntaxWarning SystemError TabError
    UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning __builtins__ __import__ aiter anext
    ascii breakpoint bytearray callable classmethod compile delattr dir exit globals help input issubclass
    memoryview quit staticmethod super vars
    """
)
"""Builtins of Python that Monty does not have."""
METHODS: Final = names(
    """
    Etiny Etop _asdict _make _replace abs absolute add adjusted append appendleft as_integer_ratio as_posix
    as_tuple astimezone betavariate cache_clear cache_info cache_parameters canonical capitalize casefold center
    choice choices clear clear_flags clear_traps close compare compare_signal compare_total compare_total_mag
    conjugate copy copy_abs copy_decimal copy_negate copy_sign count create_decimal create_decimal_from_float
    cwd date decode difference digest discard divide divide_int divmod dst elements encode end endswith exists
    exp expandtabs expovariate extend extendleft find findall finditer flush fma format fromhex fromkeys
    fullmatch gammavariate gauss get getrandbits getstate glob group groupdict groups hex hexdigest index insert
    intersection is_absolute is_canonical is_dir is_file is_finite is_infinite is_nan is_normal is_qnan
    is_signed is_snan is_subnormal is_symlink is_zero isalnum isalpha isascii isdecimal isdigit isdisjoint
    isidentifier islower isnumeric isoformat isoweekday isprintable isspace issubset issuperset istitle isupper
    items iterdir join joinpath keys ljust ln log10 logb logical_and logical_invert logical_or logical_xor
    lognormvariate lower lstrip match max max_mag min min_mag minus mkdir most_common multiply next_minus
    next_plus next_toward normalize normalvariate number_class open paretovariate partition plus pop popitem
    popleft power quantize radix randbytes randint random randrange read read_bytes read_text readable readline
    readlines remainder remainder_near remove removeprefix removesuffix rename replace resolve reverse rfind
    rglob rindex rjust rmdir rotate rpartition rsplit rstrip same_quantum sample scaleb search seed seek
    seekable setdefault setstate shift shuffle sort span split splitlines sqrt startswith stat strftime strip
    sub subtract swapcase symmetric_difference tell time timestamp timetz title to_eng_string to_integral
    to_integral_exact to_integral_value to_sci_string total total_seconds triangular tzname uniform union unlink
    update upper utcoffset values vonmisesvariate weekday weibullvariate with_name with_stem with_suffix
    writable write write_bytes write_text writeheader writerow writerows zfill
    """
)
"""Methods of Monty's values: they can be called, and are not values themselves."""
NOWHERE: Final = names(
    """
    add_note anchor as_uri bit_count bit_length buffer characters_written chmod colno ctime denominator detach
    difference_update doc drive endpos errno errors expand expanduser filename filename2 fileno format_map
    from_bytes fromisocalendar fromordinal fromtimestamp fromutc gauss_next groupindex hardlink_to home indices
    inode intersection_update is_block_device is_char_device is_fifo is_integer is_mount is_relative_to
    is_reserved is_socket isatty isocalendar lastgroup lastindex lchmod line_buffering lineno link_to lstat
    maketrans mapping msg n_fields n_sequence_fields n_unnamed_fields newlines numerator object owner parents
    peek pos raw re read1 readinto readinto1 readlink reason reconfigure regs relative_to root samefile scanner
    st_atime_ns st_blksize st_blocks st_ctime_ns st_mtime_ns st_rdev strerror subn symlink_to
    symmetric_difference_update timetuple to_bytes toordinal touch translate truncate utcfromtimestamp utcnow
    utctimetuple value with_traceback write_through writelines
    """
)
"""Attributes of Python's values that no value in Monty has."""
IGNORED_DUNDERS: Final = names(
    """
    __bool__ __bytes__ __class_getitem__ __complex__ __delattr__ __delitem__ __format__ __fspath__ __ge__
    __getattr__ __getattribute__ __gt__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imod__ __imul__ __ior__
    __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __le__ __len__ __lt__ __ne__ __new__ __reversed__
    __setattr__
    """
)
"""Special methods of a class that Monty never calls."""
TYPE_ATTRIBUTES: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "builtins.str": (names(""), names("")),
    "builtins.bytes": (names("fromhex"), names("")),
    "builtins.int": (names(""), names("")),
    "builtins.float": (names(""), names("")),
    "builtins.bool": (names(""), names("")),
    "builtins.list": (names(""), names("")),
    "builtins.tuple": (names(""), names("")),
    "builtins.dict": (names("fromkeys"), names("")),
    "builtins.set": (names(""), names("")),
    "builtins.frozenset": (names(""), names("")),
    "builtins.complex": (names(""), names("")),
    "datetime.date": (names("fromisoformat today"), names("max min resolution")),
    "datetime.datetime": (names("combine fromisoformat now strptime"), names("max min resolution")),
    "datetime.time": (names("fromisoformat"), names("max min resolution")),
    "datetime.timedelta": (names(""), names("max min resolution")),
    "datetime.timezone": (names(""), names("max min utc")),
    "pathlib.Path": (names("cwd"), names("")),
    "decimal.Decimal": (names("from_float"), names("")),
    "itertools.chain": (names(""), names("from_iterable")),
    "random.Random": (names(""), names("")),
    "collections.Counter": (names("fromkeys"), names("")),
    "collections.defaultdict": (names("fromkeys"), names("")),
    "collections.deque": (names(""), names("")),
}
"""Of each type: what can be called on it, and what can be read."""
