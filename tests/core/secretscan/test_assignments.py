"""``password=`` and its kin: values are found, code and prose that only speak of them are not."""

from __future__ import annotations

import random
import string
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adversarial.request.builders import command, prose
from tests.request.examples import ids, read
from threegate.core.secretscan.certain import find_certain
from threegate.core.secretscan.possible import find_possible
from threegate.core.secretscan.scan import find_secrets, mask_secrets

SECRET = [
    ("password=hunter2", "hunter2"),
    ("password=letmein", "letmein"),
    ("PASSWORD=hunter2", "hunter2"),
    ("--password=hunter2", "hunter2"),
    ("--password=abc", "abc"),
    ("--password hunter2", "hunter2"),
    ("--db-password letmein", "letmein"),
    ("-password letmein", "letmein"),
    ("['--password', 'hunter2']", "hunter2"),
    ('["--password", "hunter2"]', "hunter2"),
    ("PGPASSWORD=s3cret! psql", "s3cret!"),
    ("MYSQL_PWD=geheim", "geheim"),
    ("DB_PASSWORD: hunter22", "hunter22"),
    ("db.password = hunter22", "hunter22"),
    ('password = "correct horse battery staple"', "correct horse battery staple"),
    ("password='letmein'", "letmein"),
    ('"password": "letmein"', "letmein"),
    ("'password': 'hunter2',", "hunter2"),
    ('cfg["password"] = "letmein"', "letmein"),
    ("connect(password='x1y2z3')", "x1y2z3"),
    ("passwd = b'letmein'", "letmein"),
    ("password := 'letmein'", "letmein"),
    ("password => 'letmein'", "letmein"),
    ("if password == 'letmein':", "letmein"),
    ("passphrase: 'letmein'", "letmein"),
    ("user=bob password=letmein host=db", "letmein"),
    ("Passwort=geheim1", "geheim1"),
    ("password2=hunter2", "hunter2"),
    ('api_key = "abcd1234efgh5678"', "abcd1234efgh5678"),
    ("API-KEY: abcd1234efgh5678", "abcd1234efgh5678"),
    ("--api-key=abcd1234efgh5678", "abcd1234efgh5678"),
    ("--token abcd1234efgh5678", "abcd1234efgh5678"),
    ('"access_token": "abcd1234efgh5678"', "abcd1234efgh5678"),
    ("client_secret='abcd1234efgh5678'", "abcd1234efgh5678"),
    ("SECRET_KEY = 'abcd-1234-efgh-5678'", "abcd-1234-efgh-5678"),
    ("auth_token=0123456789abcdef0", "0123456789abcdef0"),
    ('var apiKey string = "abcd1234efgh5678"', "abcd1234efgh5678"),
    ('var password string = "letmein"', "letmein"),
    ('const dbPassword = "letmein"', "letmein"),
    ('cfg := Config{Password: "letmein"}', "letmein"),
    ('cfg.Password = "letmein"', "letmein"),
    ('os.Setenv("API_KEY", "abcd1234efgh5678")', "abcd1234efgh5678"),
    ('os.Setenv("DB_PASSWORD", "letmein")', "letmein"),
    ('req.Header.Set("X-Api-Key", "abcd1234efgh5678")', "abcd1234efgh5678"),
    ('private static final String API_KEY = "abcd1234efgh5678";', "abcd1234efgh5678"),
    ('String password = "letmein";', "letmein"),
    ('System.setProperty("db.password", "letmein");', "letmein"),
    ('props.put("password", "letmein");', "letmein"),
    ('Map.of("password", "letmein")', "letmein"),
    ('dataSource.setPassword("letmein");', "letmein"),
    ('builder.user("bob").password("letmein").build()', "letmein"),
    ('client.withToken("abcd1234efgh5678")', "abcd1234efgh5678"),
    ("user.set_password('letmein')", "letmein"),
    ('os.environ.get("PASSWORD", "letmein")', "letmein"),
    ('val password: String = "letmein"', "letmein"),
    ('let password: &str = "letmein";', "letmein"),
    ("password: str = 'letmein'", "letmein"),
    ('char password[] = "letmein";', "letmein"),
    ('string token2 = "abcd1234efgh5678";', "abcd1234efgh5678"),
    ("--password HUNTER2", "HUNTER2"),
    ("--password hunter2xyz", "hunter2xyz"),
    ("--password hunter2xyz --user NAME", "hunter2xyz"),
    ("--password 'HUNTER2'", "HUNTER2"),
    ("--token ABCD1234EFGH5678", "ABCD1234EFGH5678"),
    ("password = 'NAME'", "NAME"),
    ("curl -H 'Authorization: Bearer ABCD1234EFGH'", "ABCD1234EFGH"),
    ("é password=hünter22 ü", "hünter22"),
    ("日本 password='密码密码密码' x", "密码密码密码"),
]

HARMLESS = [
    "password",
    "the password is asked for",
    "password: str",
    "password: string",
    "password: required",
    "Password: ask the operator",
    "password = getpass.getpass()",
    "password = getpass()",
    "password = input('Password: ')",
    "password=password",
    "password=args.password",
    "f(password=pw)",
    "f(password=mypassword)",
    "password = None",
    "password=None",
    "password=''",
    "password=***",
    "password=xxxxxxxx",
    "password=<redacted>",
    "--password=<password>",
    "--password $PASSWORD",
    "--password={password}",
    "--password=%s",
    "--password -x",
    "--password NAME",
    "--password=FILE",
    "--password USER_PASSWORD",
    "--db-password PASS --host HOST",
    "--token TOKEN",
    "--api-key API_KEY",
    "--password PASSWORD",
    "--password 'NAME'",
    '["tool", "--password", "NAME", "--token", "TOKEN"]',
    "usage: tool [--password NAME] [--token TOKEN]",
    "give it with --password NAME.",
    "--api-key API-KEY",
    "curl -H 'Authorization: Bearer ACCESS_TOKEN'",
    'var password string = ""',
    'var token string = "NAME"',
    'String password = "changeme";',
    'setPassword("")',
    "setPassword(password)",
    'os.Setenv("PASSWORD", os.Args[1])',
    'os.environ.get("PASSWORD", "")',
    'add_argument("--password", "-p")',
    'add_argument("password", help="the password of the user")',
    'fields = ["password", "username"]',
    'if has_password("bob"):',
    'getpass("Password: ")',
    'req.Header.Set("Authorization", "Bearer " + token)',
    'header("X-Token", "NAME")',
    "the --username and --password options",
    "--password is asked for",
    "FORCE_CHANGE_PASSWORD = 'FORCE_CHANGE_PASSWORD'",
    "CHALLENGE_PASSWORD: 'challengePassword'",
    "--password-file=/in/a",
    "password = os.environ['PASSWORD']",
    "password = settings.db.password",
    "password = config[key]",
    "password=...",
    "password: your password here",
    'password = "changeme"',
    'password = "your-password"',
    'password = "abc"',
    '"password": "the password of the user is dropped"',
    "password: SHA256-hashed",
    "sort passwords by length",
    "token = next(tokens)",
    "token = tokens[0]",
    "token: str",
    "token: 5",
    "token = 'NUMBER'",
    "token = 'end of the line'",
    "tokens = text.split()",
    "max_tokens=100",
    "max_tokens: 4096",
    "num_tokens = len(encode(text))",
    "token_type = 'identifier_or_keyword'",
    "secret: no",
    "secret santa list",
    "no secrets: none",
    "api_key = None",
    "api_key=os.environ['API_KEY']",
    "api_key=config.api_key_for_service_2",
    "primary_key = 'customer_id_2024'".replace("primary_key", "sort_column"),
    "key: value",
    "pass",
    "bypass=true",
    "compass: north1",
    "the token/password column",
    "token hash: sha256-0123456789abcdef",
    "token = 'sha256_0123456789abcdef'",
    "credentials: see the operator",
]


@pytest.mark.parametrize(("text", "value"), SECRET)
def test_an_assigned_value_is_found_exactly(text: str, value: str) -> None:
    assert [text[found.start : found.end] for found in find_secrets(text)] == [value]
    assert value not in mask_secrets(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_speaking_of_a_secret_is_none(text: str) -> None:
    assert [(found.kind, text[found.start : found.end]) for found in find_secrets(text)] == []


@pytest.mark.parametrize("place", [command, prose])
@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("tool --password NAME", False),
        ("tool --password PASSWORD", False),
        ("tool --password='DB_PASSWORD' --token=TOKEN", False),
        ("tool --token TOKEN --api-key API_KEY", False),
        ("tool --password hunter2xyz", True),
        ("tool --password=hunter2xyz --user NAME", True),
        ("tool --token ABCD1234EFGH5678", True),
    ],
)
def test_gate_1_takes_placeholders_in_capitals_and_refuses_values(
    place: Callable[[str], str], line: str, refused: bool
) -> None:
    assert ("TG501" in ids(read(place(line)))) == refused


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_gives_disjoint_places_in_order(text: str) -> None:
    _check(text)


_PIECES = st.sampled_from(
    ["password", "token", "api_key", "--", "=", ": ", " ", '"', "'", "\n", "(", "hunter2", "abcd1234efgh5678", "AKIA" + "A1" * 8, "é", "\ud800", "://a:b@", "eyJhIjox.e30", "x" * 500]  # noqa: E501
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES, max_size=12).map("".join))
def test_any_mixture_gives_disjoint_places_in_order(text: str) -> None:
    _check(text)


def _check(text: str) -> None:
    found = find_secrets(text)
    end = 0
    for item in found:
        assert end <= item.start < item.end <= len(text)
        end = item.end
    masked = mask_secrets(text)
    assert masked.count("\n") == text.count("\n")
    assert (masked == text) == (not found)


@pytest.mark.parametrize(
    "piece",
    ["password=", "password ", "token: ", '"password" ', "AKIA", "eyJ", "eyJa.", "://a:", "-----BEGIN PRIVATE KEY-----", "xoxb-1-", "a", "/", "aws key",  # noqa: E501
     "authorization: bearer ", "curl -u a:b", "-u ", "-ua:", "basicauth(\"a\",", "password(\"", "password[1]=", "set(\"token\",\"", "token x=", "ops_eyJ", "ABSK", "Q~", "abc8Q~", "npm_", "SG.", "sk-", "A1b2_", "--password ", "password='", "é", "//:_authToken=", "glpat-"],  # noqa: E501
)  # fmt: skip
def test_64_kib_of_anything_are_searched(piece: str) -> None:
    """Quadratic work would run into the suite's timeout; bench/request_worst.py has the figures."""
    _check(piece * (64 * 1024 // len(piece)))


@pytest.mark.parametrize("size", [1_000, 64 * 1024, 256 * 1024])
def test_a_secret_behind_much_text_of_any_kind_is_still_found(size: int) -> None:
    """A pattern set that ran out of memory would answer that nothing is there."""
    key = "AKIA" + "A1" * 8
    for piece in (
        "a",
        "/",
        "ab cd ",
        "eyJa.b",
        "0a1b2c3d",
        "glpat-",
        "AKIAA",
        "xoxb-1-",
        "://a:",
        "é日",
        "sk-ant-",
        "aws key ",
        "-",
    ):
        text = piece * (size // len(piece)) + f" {key} "
        assert any(item.start <= text.index(key) and item.end >= len(text) - 1 for item in find_secrets(text)), piece


LETTERS = string.ascii_letters + string.digits


LEAST = 0.95
"""Part of what is planted that is found; the rest is random text that happens to look typed."""


def of(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choices(alphabet, k=count))


def test_assigned_passwords_are_counted_apart() -> None:
    """They are listed and hide nothing, because code is full of them."""
    rng = random.Random(7)
    texts = [
        f'{name} = "{of(rng, LETTERS, 13)}7"\n' for name in ("DB_PASSWORD", "api_secret", "token") for _ in range(20)
    ]
    assert not any(find_certain(text) for text in texts)
    assert sum(bool(find_possible(text)) for text in texts) >= len(texts) * LEAST
