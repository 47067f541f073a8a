"""The forms of secrets, as linear patterns (RE2 syntax, over bytes).

Written from the vendors' documented token forms and, in breadth, after the keyed detectors of detect-secrets
1.5 (compared with them in tests/core/secretscan/). The part between the first pair of capturing parentheses is the
secret; without any, the whole match. A pattern may end with one byte that only bounds the token.
No pattern may succeed early and look far ahead: that would make repeated searching quadratic.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class SecretForm(NamedTuple):
    """One form of a secret. `kind` is what people read instead of the value."""

    kind: str
    pattern: str


_END: Final = r"(?:[^A-Za-z0-9_-]|$)"
_KEYED_VALUE: Final = r"[\"']?\]? *(?:=|:|:=|=>| |::) *[\"']?"

FORMS: Final[tuple[SecretForm, ...]] = (
    # ---- private keys: with the whole block, so that masking leaves nothing of it
    SecretForm(
        "private-key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-])*(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    SecretForm("private-key", r"BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY"),
    SecretForm("private-key", r"PuTTY-User-Key-File-[23]"),
    SecretForm("private-key", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
    # ---- clouds
    SecretForm("aws-access-key", r"(?:^|[^A-Z0-9])((?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16})(?:[^A-Z0-9]|$)"),
    SecretForm(
        "aws-secret-key",
        r"(?i)aws.{0,20}(?:key|pwd|pw|password|pass|token).{0,20}[\"' =:]([0-9a-z/+]{40})(?:[^0-9a-z/+]|$)",
    ),
    SecretForm("aws-bedrock-key", r"(?:^|[^A-Za-z0-9+/])(ABSK[A-Za-z0-9+/]{40,}={0,2})"),
    SecretForm("aws-bedrock-key", r"\bbedrock-api-key-[A-Za-z0-9+/=_-]{20,}"),
    SecretForm(
        "azure-client-secret",
        r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{30,40})(?:[^A-Za-z0-9_~.-]|$)",
    ),
    SecretForm("azure-storage-key", r"AccountKey=([a-zA-Z0-9+/=]{80,})"),
    SecretForm("azure-shared-signature", r"[?&;]sig=([A-Za-z0-9%+/=]{40,})"),
    SecretForm("google-api-key", r"AIza[0-9A-Za-z_-]{35}"),
    SecretForm("google-oauth-secret", r"GOCSPX-[A-Za-z0-9_-]{20,40}"),
    SecretForm("google-oauth-token", r"\bya29\.[A-Za-z0-9_-]{20,}"),
    SecretForm("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    SecretForm("alibaba-access-key", r"\bLTAI[A-Za-z0-9]{12,24}\b"),
    SecretForm(
        "ibm-cloud-key",
        r"(?i)ibm[_-]?(?:cloud)?[_-]?(?:iam)?[_-]?(?:api)?[_-]?(?:key|pwd|password|pass|token)"
        + _KEYED_VALUE
        + r"([a-z0-9_-]{44})(?:[^a-z0-9_-]|$)",
    ),
    SecretForm(
        "ibm-cloud-key",
        r"(?i)cloud[_-]?(?:iam)?[_-]?(?:api)?[_-]?(?:key|pwd|password|pass|token)"
        + _KEYED_VALUE
        + r"([a-z0-9_-]{44})(?:[^a-z0-9_-]|$)",
    ),
    SecretForm(
        "ibm-cos-secret",
        r"(?i)secret[_-]?(?:access)?[_-]?key" + _KEYED_VALUE + r"([a-f0-9]{48})(?:[^a-f0-9]|$)",
    ),
    SecretForm(
        "cloudant-key",
        r"(?i)(?:cloudant|\bcl|\bclou)[_-]?(?:api)?(?:key|pwd|pw|password|pass|token)"
        + _KEYED_VALUE
        + r"([0-9a-f]{64}|[a-z]{24})(?:[^0-9a-z]|$)",
    ),
    SecretForm("cloudant-key", r"(?i)https?://[\w-]+:([0-9a-f]{64}|[a-z]{24})@[\w-]+\.cloudant\.com"),
    SecretForm(
        "softlayer-key",
        r"(?i)(?:softlayer|\bsl)[_-]?(?:api)?[_-]?(?:key|pwd|password|pass|token)"
        + _KEYED_VALUE
        + r"([a-z0-9]{64})(?:[^a-z0-9]|$)",
    ),
    SecretForm("softlayer-key", r"(?i)https?://api\.softlayer\.com/soap/v3(?:\.1)?/([a-z0-9]{64})"),
    SecretForm("vault-token", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    SecretForm("terraform-token", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    SecretForm("databricks-token", r"\bdapi[0-9a-f]{32}\b"),
    SecretForm("pulumi-token", r"\bpul-[0-9a-f]{40}\b"),
    SecretForm("heroku-token", r"\bHRKU-[A-Za-z0-9_-]{36,}"),
    SecretForm("fly-token", r"\bfm[12]_[A-Za-z0-9+/=]{60,}"),
    # ---- forges and package registries
    SecretForm("github-token", r"gh[pousr]_[A-Za-z0-9_]{36}"),
    SecretForm("github-token", r"github_pat_[A-Za-z0-9_]{22,}"),
    SecretForm("gitlab-token", r"(?:glpat|gldt|glft|glffct|glsoat|glrt)-[A-Za-z0-9_-]{20,}"),
    SecretForm("gitlab-token", r"GR1348941[A-Za-z0-9_-]{20,}"),
    SecretForm("gitlab-token", r"glcbt-(?:[0-9a-fA-F]{2}_)?[A-Za-z0-9_-]{20,}"),
    SecretForm("gitlab-token", r"glimt-[A-Za-z0-9_-]{25,}"),
    SecretForm("gitlab-token", r"glptt-[A-Za-z0-9_-]{40,}"),
    SecretForm("gitlab-token", r"glagent-[A-Za-z0-9_-]{50,}"),
    SecretForm("gitlab-token", r"gloas-[A-Za-z0-9_-]{64,}"),
    SecretForm("bitbucket-token", r"\bATBB[A-Za-z0-9]{28,40}\b"),
    SecretForm("atlassian-token", r"\bATATT3xFfGF0[A-Za-z0-9_=-]{40,}"),
    SecretForm("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    SecretForm("npm-token", r"_authToken=\s*([A-Fa-f0-9-]{36}|npm_[A-Za-z0-9]{4,})"),
    SecretForm("pypi-token", r"pypi-AgE[A-Za-z0-9_-]{20,}"),
    SecretForm("rubygems-token", r"\brubygems_[a-f0-9]{48}\b"),
    SecretForm("crates-token", r"\bcio[A-Za-z0-9]{32}\b"),
    SecretForm("docker-token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    SecretForm("artifactory-token", r"(?:[\s=:\"']|^)(AKC[a-zA-Z0-9]{10,})(?:[\s\"']|$)"),
    SecretForm("artifactory-token", r"(?:[\s=:\"']|^)(AP[0-9A-F][a-zA-Z0-9]{8,})(?:[\s\"']|$)"),
    # ---- services
    SecretForm("slack-token", r"xox[abpose]-(?:\d+-)+[A-Za-z0-9]+"),
    SecretForm("slack-token", r"xox[abeprs]-[A-Za-z0-9-]{10,}"),
    SecretForm("slack-token", r"\bxapp-\d-[A-Z0-9]{6,20}-[A-Za-z0-9-]{10,}"),
    SecretForm(
        "slack-webhook",
        r"(?i)https://hooks\.slack\.com/(?:services|workflows)/T[a-z0-9_]+/[AB][a-z0-9_]+/[a-z0-9_/]+",
    ),
    SecretForm("discord-token", r"[MNO][a-zA-Z\d_-]{23,25}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27}"),
    SecretForm("discord-webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{10,22}/[A-Za-z0-9_-]{40,}"),
    SecretForm("telegram-token", r"\b([0-9]{8,10}:[0-9A-Za-z_-]{35})" + _END),
    SecretForm("stripe-key", r"[rs]k_(?:live|test)_[0-9a-zA-Z]{16,}"),
    SecretForm("stripe-key", r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    SecretForm("square-token", r"sq0(?:csp|atp)-[0-9A-Za-z\\_-]{22,43}"),
    SecretForm("sendgrid-key", r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"),
    SecretForm("mailchimp-key", r"\b[0-9a-z]{32}-us[0-9]{1,2}\b"),
    SecretForm("mailgun-key", r"\bkey-[0-9a-f]{32}\b"),
    SecretForm("brevo-key", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    SecretForm("twilio-key", r"\b(?:AC|SK)[a-z0-9]{32}\b"),
    SecretForm("shopify-token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    SecretForm("openai-key", r"\bsk-[A-Za-z0-9_-]{0,}T3BlbkFJ[A-Za-z0-9_-]{20,}"),
    SecretForm("openai-key", r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}"),
    SecretForm("anthropic-key", r"\bsk-ant-[A-Za-z0-9_-]{20,}"),
    SecretForm("openrouter-key", r"\bsk-or-v1-[a-f0-9]{40,}"),
    SecretForm("huggingface-token", r"\bhf_[A-Za-z]{30,40}\b"),
    SecretForm("replicate-token", r"\br8_[A-Za-z0-9]{37}\b"),
    SecretForm("groq-key", r"\bgsk_[A-Za-z0-9]{40,}\b"),
    SecretForm("linear-key", r"\blin_api_[A-Za-z0-9]{40}\b"),
    SecretForm("new-relic-key", r"\bNRAK-[A-Z0-9]{27}\b"),
    SecretForm("grafana-token", r"\bglsa_[A-Za-z0-9]{32}_[a-f0-9]{8}\b"),
    SecretForm("grafana-token", r"\bglc_[A-Za-z0-9+/]{32,}={0,2}"),
    SecretForm("sentry-token", r"\bsntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    SecretForm("doppler-token", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}"),
    SecretForm("grafana-token", r"\beyJrIjoi[A-Za-z0-9+/_-]{20,}={0,3}"),
    SecretForm("planetscale-token", r"\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{20,}"),
    SecretForm("1password-token", r"\bops_(?:eyJ[A-Za-z0-9+/=_-]{20,}|[A-Za-z0-9+/=]{40,})"),
    SecretForm("airtable-token", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    SecretForm("perplexity-key", r"\bpplx-[A-Za-z0-9]{30,}"),
    SecretForm("openshift-token", r"\bsha256~[A-Za-z0-9_-]{40,}"),
    SecretForm("notion-token", r"\b(?:secret_[A-Za-z0-9]{43}|ntn_[A-Za-z0-9]{40,50})\b"),
    SecretForm("postman-key", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    SecretForm("figma-token", r"\bfig[dour]_[A-Za-z0-9_-]{40,}"),
    SecretForm("dynatrace-token", r"\bdt0[a-z]{1,2}[0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}\b"),
    # ---- forms of the protocols
    SecretForm("json-web-token", r"(eyJ[A-Za-z0-9_=-]+\.[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_.+/=-]*)?)"),
    SecretForm("url-credentials", r"://[^\s:/?#\[\]@!$&'()*+,;=\"<>]+:([^\s/?#\[\]@\"<>]+)@"),
    SecretForm(
        "registry-credentials",
        r"(?:[\"']auth[\"']\s{0,3}:|_auth\s{0,3}=)\s{0,3}[\"']?([A-Za-z0-9+/]{8,}={0,2})",
    ),
    SecretForm(
        "user-credentials",
        r"(?:^|[\s\"',\[(])(?:-[A-Za-z]{0,8}[auU]|--(?:proxy-)?user|--auth)[\"']?,?[\s=]{0,4}[\"']?"
        r"[^\s:/\"'<>$@,=-][^\s:/\"'<>$@,=]*:([^\s\"'/][^\s\"']*)",
    ),
    SecretForm(
        "basic-credentials",
        r"(?i)(?:basic_?auth(?:entication)?|\bauth\s?=\s?)\(\s{0,4}[\"'][^\"'\n]*[\"']\s{0,4},\s{0,4}[\"']([^\"'\n]+)[\"']",
    ),
    SecretForm("sshpass-password", r"\bsshpass\s{1,4}-p\s{0,4}[\"']?([^\s\"'-][^\s\"']*)"),
    SecretForm(
        "authorization-header",
        r"(?i)\bauthorization[\"']?\s{0,3}[:=,]\s{0,3}[\"']?(?:bearer|basic|token|apikey)\s{1,3}([a-z0-9._~+/=-]{8,})",
    ),
    SecretForm("bearer-token", r"(?i)\bbearer\s{1,3}([a-z0-9._~+/=-]{20,})"),
)

ASSIGNED_NAME: Final = (
    r"(?i)((pass(?:word|wd|phrase|code)s?|pwd|passwort|kennwort)"
    r"|secrets?|tokens?|credentials?"
    r"|(?:api|access|secret|private|auth|signing|encryption|master|account|license|shared)[_-]?(?:key|token)s?"
    r"|connection[_-]?string)[0-9]{0,2}(?:[\"']?\]?(?:\s{0,4}[:=]|,?\s)|\[[0-9]{0,5}\]|\([\"'])"
)
"""A name that secrets are assigned to and what may precede a value. Group 1: the name; group 2: it says
password.
"""
