"""The domains in which harm could be done, as the Agent Action Contract v1 names them; requests and settings
use the same words.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

RiskDomain = Literal[
    "devops",
    "finance",
    "education",
    "hr",
    "legal",
    "pharma",
    "healthcare",
    "commerce",
    "customer_support",
    "security",
    "research",
    "personal_productivity",
    "public_information",
    "unknown",
]
RISK_DOMAINS: Final[tuple[RiskDomain, ...]] = get_args(RiskDomain)
