"""Secrets by their form: found whatever stands around them, masked whole, and compared with detect-secrets."""

from __future__ import annotations

import base64
import json
import random
import re
import string

import pytest

from tests.conftest import peer
from threegate.core.secretscan.patterns import FORMS
from threegate.core.secretscan.scan import compiled, find_secrets, has_secret, mask_secrets, spans

_RANDOM = random.Random(20261122)
LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
WORD = string.ascii_letters + DIGITS


def made(alphabet: str, length: int) -> str:
    """A made-up token with letters and digits."""
    text = "".join(_RANDOM.choice(alphabet) for _ in range(length - 2))
    return alphabet[0] + text + alphabet[-1]


def jwt() -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps({"sub": "1"})]
    return (
        ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "." + made(WORD, 43)
    )


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


PEM = (
    "-----BEGIN {0}PRIVATE KEY{1}-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: A-B,C\n\nMIIabc+/=\nMIIdef\n-----END "
    "{0}PRIVATE KEY{1}-----"
)

EXAMPLES: list[tuple[str, str]] = [
    ("private-key", PEM.format("", "")),
    ("private-key", PEM.format("RSA ", "")),
    ("private-key", PEM.format("OPENSSH ", "")),
    ("private-key", PEM.format("PGP ", " BLOCK")),
    ("private-key", PEM.format("EC ", "").replace("\n", "\\n")),
    ("private-key", "PuTTY-User-Key-File-2: ssh-rsa"),
    ("private-key", "AGE-SECRET-KEY-1" + made(UPPER + DIGITS, 58)),
    ("aws-access-key", "AKIA" + made(UPPER + DIGITS, 16)),
    ("aws-access-key", "ASIA" + made(UPPER + DIGITS, 16)),
    ("aws-secret-key", 'aws_secret_access_key = "' + made(WORD + "/+", 40) + '"'),
    ("azure-storage-key", "AccountKey=" + made(WORD + "+/", 86) + "=="),
    ("azure-shared-signature", "https://a.blob.core.windows.net/b?sv=2&sig=" + made(WORD, 46) + "%3D"),
    ("google-api-key", "AIza" + made(WORD + "_-", 35)),
    ("google-oauth-secret", "GOCSPX-" + made(WORD, 28)),
    ("google-oauth-token", "ya29." + made(WORD, 60)),
    ("digitalocean-token", "dop_v1_" + made("0123456789abcdef", 64)),
    ("alibaba-access-key", "LTAI" + made(WORD, 20)),
    ("ibm-cloud-key", "ibm_cloud_api_key=" + made(WORD, 44)),
    ("ibm-cos-secret", "secret_access_key: " + made("abcdef0123456789", 48)),
    ("cloudant-key", "cloudant_password=" + made(LOWER, 24)),
    ("softlayer-key", "softlayer_api_key = " + made(LOWER + DIGITS, 64)),
    ("vault-token", "hvs." + made(WORD, 24)),
    ("terraform-token", made(WORD, 14) + ".atlasv1." + made(WORD, 60)),
    ("databricks-token", "dapi" + made("abcdef0123456789", 32)),
    ("pulumi-token", "pul-" + made("abcdef0123456789", 40)),
    ("heroku-token", "HRKU-" + made(WORD, 60)),
    ("fly-token", "fm2_" + made(WORD, 100)),
    ("github-token", "ghp_" + made(WORD, 36)),
    ("github-token", "gho_" + made(WORD, 36)),
    ("github-token", "ghs_" + made(WORD, 36)),
    ("github-token", "github_pat_" + made(WORD, 82)),
    ("gitlab-token", "glpat-" + made(WORD, 20)),
    ("gitlab-token", "glrt-" + made(WORD, 20)),
    ("gitlab-token", "GR1348941" + made(WORD, 20)),
    ("gitlab-token", "glcbt-64_" + made(WORD, 20)),
    ("gitlab-token", "glptt-" + made(WORD, 40)),
    ("gitlab-token", "gloas-" + made(WORD, 64)),
    ("bitbucket-token", "ATBB" + made(WORD, 32)),
    ("atlassian-token", "ATATT3xFfGF0" + made(WORD, 180)),
    ("npm-token", "npm_" + made(WORD, 36)),
    ("npm-token", "//registry.npmjs.org/:_authToken=01234567-89ab-cdef-0123-456789abcdef"),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc" + made(WORD, 80)),
    ("rubygems-token", "rubygems_" + made("abcdef0123456789", 48)),
    ("crates-token", "cio" + made(WORD, 32)),
    ("docker-token", "dckr_pat_" + made(WORD, 27)),
    ("artifactory-token", "AKCp" + made(WORD, 60)),
    ("artifactory-token", "AP6" + made(WORD, 40)),
    ("slack-token", "xoxb-123456789012-123456789012-" + made(WORD, 24)),
    ("slack-token", "xapp-1-A0123456789-1234567890123-" + made(WORD, 40)),
    ("slack-webhook", "https://hooks.slack.com/services/T01234567/B01234567/" + made(WORD, 24)),
    ("discord-token", "M" + made(WORD, 23) + "." + made(WORD, 6) + "." + made(WORD, 27)),
    ("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/" + made(WORD, 68)),
    ("telegram-token", "110201543:AAH" + made(WORD, 32)),
    ("stripe-key", "sk_live_" + made(WORD, 24)),
    ("stripe-key", "rk_live_" + made(WORD, 24)),
    ("square-token", "sq0csp-" + made(WORD, 43)),
    ("sendgrid-key", "SG." + made(WORD, 22) + "." + made(WORD, 43)),
    ("mailchimp-key", made("abcdef0123456789", 32) + "-us12"),
    ("mailgun-key", "key-" + made("abcdef0123456789", 32)),
    ("brevo-key", "xkeysib-" + made("abcdef0123456789", 64) + "-" + made(WORD, 16)),
    ("twilio-key", "AC" + made("abcdef0123456789", 32)),
    ("twilio-key", "SK" + made("abcdef0123456789", 32)),
    ("shopify-token", "shpat_" + made("abcdef0123456789", 32)),
    ("openai-key", "sk-" + made(WORD, 20) + "T3BlbkFJ" + made(WORD, 20)),
    ("openai-key", "sk-proj-" + made(WORD, 60)),
    ("anthropic-key", "sk-ant-api03-" + made(WORD, 80)),
    ("openrouter-key", "sk-or-v1-" + made("abcdef0123456789", 64)),
    ("huggingface-token", "hf_" + made(string.ascii_letters, 34)),
    ("replicate-token", "r8_" + made(WORD, 37)),
    ("groq-key", "gsk_" + made(WORD, 52)),
    ("linear-key", "lin_api_" + made(WORD, 40)),
    ("new-relic-key", "NRAK-" + made(UPPER + DIGITS, 27)),
    ("grafana-token", "glsa_" + made(WORD, 32) + "_" + made("abcdef0123456789", 8)),
    ("grafana-token", "glc_" + made(WORD, 40)),
    ("sentry-token", "sntrys_" + made(WORD, 60)),
    ("doppler-token", "dp.pt." + made(WORD, 43)),
    ("planetscale-token", "pscale_tkn_" + made(WORD, 43)),
    ("notion-token", "secret_" + made(WORD, 43)),
    ("postman-key", "PMAK-" + made("abcdef0123456789", 24) + "-" + made("abcdef0123456789", 34)),
    ("figma-token", "figd_" + made(WORD, 40)),
    ("dynatrace-token", "dt0c01." + made(UPPER + DIGITS, 24) + "." + made(UPPER + DIGITS, 64)),
    ("json-web-token", jwt()),
    ("url-credentials", "https://bob:s3cr3t@example.org/a"),
    ("1password-token", "ops_eyJ" + made(WORD, 240)),
    ("1password-token", "ops_" + made(WORD, 60)),
    ("aws-bedrock-key", "ABSK" + made(WORD + "+/", 128) + "="),
    ("aws-bedrock-key", "bedrock-api-key-" + made(WORD, 200)),
    ("azure-client-secret", "aB3" + "8Q~" + made(WORD + "_~-", 34)),
    ("gitlab-token", "glffct-" + made(WORD, 20)),
    ("grafana-token", "eyJrIjoi" + made(WORD, 90) + "=="),
    ("airtable-token", "pat" + made(WORD, 14) + "." + made("abcdef0123456789", 64)),
    ("perplexity-key", "pplx-" + made(WORD, 48)),
    ("openshift-token", "sha256~" + made(WORD + "_-", 43)),
    ("planetscale-token", "pscale_oauth_" + made(WORD + "_.=-", 32)),
    ("planetscale-token", "pscale_pw_" + made(WORD, 43)),
    ("registry-credentials", '{"auths": {"ghcr.io": {"auth": "' + encoded("bob:" + made(WORD, 12)) + '"}}}'),
    ("registry-credentials", "//registry.npmjs.org/:_auth=" + encoded("bob:" + made(WORD, 12))),
    ("user-credentials", "curl -u bob:" + made(WORD, 12) + " https://example.org"),
    ("user-credentials", 'curl --user "bob:' + made(WORD, 12) + '" https://example.org'),
    ("user-credentials", "curl -sSubob:" + made(WORD, 12)),
    ("user-credentials", '["curl", "-s", "--proxy-user", "bob:' + made(WORD, 12) + '"]'),
    ("user-credentials", "http -a bob:" + made(WORD, 12) + " example.org"),
    ("basic-credentials", 'req.SetBasicAuth("bob", "' + made(WORD, 12) + '")'),
    ("basic-credentials", "requests.get(url, auth=('bob', '" + made(WORD, 12) + "'))"),
    ("basic-credentials", "HTTPBasicAuth('bob', '" + made(WORD, 12) + "')"),
    ("sshpass-password", "sshpass -p " + made(WORD, 12) + " ssh bob@example.org"),
    ("bearer-token", "Bearer " + made(WORD, 36)),
    ("bearer-token", "send it with bearer  " + made(LOWER, 20)),
    ("authorization-header", "Authorization: Bearer " + made(WORD, 30)),
    ("authorization-header", '{"authorization": "Basic ' + made(WORD, 20) + '"}'),
]
AROUND = ["{}", "x {} y", '"{}"', "'{}',", "é {} 日本", "a\n{}\nb", "\ud800 {}", "({})", "key: {}"]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(EXAMPLES)])
def test_a_secret_is_found_and_masked_in_any_surroundings(kind: str, example: str) -> None:
    for around in AROUND:
        if kind == "artifactory-token" and around == "({})":
            continue  # its form, after detect-secrets, is bounded by blanks or quotes
        text = around.format(example)
        found = find_secrets(text)
        assert kind in {item.kind for item in found}, (around, found)
        assert has_secret(text)
        masked = mask_secrets(text)
        assert masked.count("\n") == text.count("\n")
        assert f"[{kind}]" in masked
        left = masked.replace(f"[{kind}]", "")
        for item in found:
            secret = text[item.start : item.end]
            pieces = [secret[at : at + 8] for at in range(len(secret) - 7)]
            assert not any(piece in left for piece in pieces or [secret])


def test_every_form_compiles_and_has_an_example() -> None:
    assert {form.kind for form in FORMS} == {kind for kind, _ in EXAMPLES}
    for form in FORMS:
        assert (
            any(compiled(form.pattern).search(example.encode()) for _, example in EXAMPLES)
            or form.pattern in _OF_SAME_KIND
        )


_OF_SAME_KIND = {
    form.pattern
    for form in FORMS
    if any(
        name in form.pattern
        for name in ("glimt-", "glagent-", "whsec_", r"cloudant\.com", r"api\.softlayer", "(?i)cloud[_-]?")
    )
}
"""Further spellings of kinds that have examples; compared with detect-secrets below."""

HONEST = [
    "sha256:" + "0123456789abcdef" * 4,
    "- /in/data.csv sha256:" + "ab12" * 16,
    "commit 0123456789abcdef0123456789abcdef01234567",
    "md5 d41d8cd98f00b204e9800998ecf8427e  data.csv",
    "A base64 picture: iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "uuid 123e4567-e89b-12d3-a456-426614174000",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlN9Zk1JPFOE7iIbuDbHTIaG0H0gTjmSbRQzxJ2x7nR operator",
    "-----BEGIN PUBLIC KEY-----",
    "-----BEGIN SSH SIGNATURE-----",
    "-----BEGIN CERTIFICATE-----",
    "https://example.org/a?b=c#d",
    "https://user@example.org/repo.git",
    "git@github.com:a/b.git",
    "http://127.0.0.1:3128/path@x",
    "https://bob:<password>@example.org",
    "https://bob:$PASS@example.org",
    "https://bob:password@example.org",
    "Authorization: Bearer <token>",
    "ASIA PACIFIC REGION",
    "the task-runner desk-top risk-free",
    "eyJ is how a JWT begins",
    "eyJab.cd",
    "eyJabc.cd",
    "eyJhYmM.cd",
    "eyJabcd=.x",
    "eyJéé.cd",
    "ratio 12345678:1",
    "SKU AC12",
    "xoxo",
    "key-value store",
    "APACHEFOUNDATION",
    "AP1SensorReadings",
    "pypi-simple",
    "sk-learn",
    "a token_count of 1024",
    "docker run -u 1000:1000 alpine",
    "chown -R bob:staff /out",
    "curl -u $USER:$PASS https://example.org",
    "curl -u bob:<password> https://example.org",
    "curl -u bob:password https://example.org",
    "curl -u bob https://example.org",
    "curl https://example.org -o /out/a",
    "sshpass -p $PASS ssh bob@example.org",
    "sshpass -f /in/file ssh bob@example.org",
    '{"auth": "none"}',
    '{"auth": "oauth2flow"}',
    "auth=(user, password)",
    "sha256~ is how OpenShift's tokens begin",
    "the ops_team and pplx-online",
    "pattern.match",
    "A~Q~B is not a path",
]


@pytest.mark.parametrize("text", HONEST)
def test_what_only_looks_like_a_secret_is_none(text: str) -> None:
    assert find_secrets(text) == []
    assert mask_secrets(text) == text
    assert not has_secret(text)


def test_two_secrets_side_by_side_are_both_found() -> None:
    key = "AKIA" + "A1" * 8
    assert [item.kind for item in find_secrets(f"{key} {key},{key}")] == ["aws-access-key"] * 3


def test_overlapping_secrets_become_one_span() -> None:
    text = "password=ghp_" + "a1B2" * 9
    found = find_secrets(text)
    assert len(found) == 1
    assert mask_secrets(text) == "password=[github-token]"


def test_at_most_so_many_places_are_given() -> None:
    assert list(spans("a", b"aaaa", most=2)) == [(0, 1), (1, 2)]
    assert list(spans("a", b"aa")) == [(0, 1), (1, 2)]
    assert list(spans("x(a)|b", b"b xa")) == [(0, 1), (3, 4)]


def test_a_masked_text_is_clean() -> None:
    for _, example in EXAMPLES:
        assert not [item for item in find_secrets(mask_secrets(example)) if item.kind not in ("private-key",)]


def test_detect_secrets_finds_nothing_by_form_that_we_do_not() -> None:
    """Each keyed detector of the library, asked about our examples and about its own forms."""
    left_out = {
        "Public IP (ipv4)": "docs/spec/1-tool-request.md: an address is not a secret",
        "Base64 High Entropy String": "no entropy guesses",
        "Hex High Entropy String": "no entropy guesses",
        "Secret Keyword": "test_assignments.py",
    }
    samples = [example for _, example in EXAMPLES] + [
        "glimt-" + made(WORD, 25),
        "glagent-" + made(WORD, 60),
        "https://bob:" + "0f" * 32 + "@bob.cloudant.com",
        "https://api.softlayer.com/soap/v3/" + made(LOWER + DIGITS, 64),
        "cloud_iam_api_key: " + made(WORD, 44),
        'aws_access_token "' + made(WORD, 40) + '"',
        "xoxp-123-456-abc",
    ]
    seen = set()
    plugins = peer("detect_secrets.core.plugins.util").get_mapping_from_secret_type_to_class()
    for name, plugin in plugins.items():
        if name in left_out:
            continue
        for sample in samples:
            for pattern in plugin().denylist:
                if re.search(pattern, sample) and plugin().secret_type:
                    seen.add(name)
                    assert has_secret(sample), (name, sample)
    assert seen == set(plugins) - set(left_out)
