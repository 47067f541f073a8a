"""What is not a secret is not found: what people report of scanners."""

from __future__ import annotations

import pytest

from threegate.core.secretscan.possible import find_possible

NO_FINDING = [
    '"pbkdf2-password": "1.2.1"',
    "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    'url = "postgres://postgres:postgres@localhost:5432/app"',
    "POSTGRES_PASSWORD: changeme",
    'login({"password": "hunter2"})',
    "token: ghp_" + "x" * 36,
    "key: sk_live_" + "0" * 24,
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "xoxb-1234-1234-4ddbc191d40ee098cbaae6f3523ada2d",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
    "SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    "if password1 == password2:",
    "ansible-playbook site.yml --ask-vault-password",
    "self.password = password",
    'client.login(username="a", password="password123")',
    'headers = {"Authorization": "Bearer testtoken"}',
    'url = httpx.URL("https://jo%40email.com:a%20secret@müller.de:1234/pa%20th")',
    "password_hash = '$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW'",
    '"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="',
    "token=sha256:5f2b9c07a1e84d36b0c95ad1e7f382645f2b9c07a1e84d36b0c95ad1e7f38264",
    "-----BEGIN RSA PRIVATE KEY-----\\n...\\n-----END RSA PRIVATE KEY-----",
    'assert "BEGIN PRIVATE KEY" in text',
    "private_key: Ed25519PrivateKey | Ed448PrivateKey",
    "access_token = resolved_access_token_value_2",
    "api_key = os.environ['API_KEY']",
    "password: ${DB_PASSWORD}",
]


@pytest.mark.parametrize("text", NO_FINDING, ids=range(len(NO_FINDING)))
def test_what_only_looks_like_a_secret_is_no_finding(text: str) -> None:
    assert find_possible(text) == []
