"""The change of files that the pictures in the docs show: an agent's draft in a workspace of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.plugins.changes.branches import Branching, branching

_ORDERS: Final = '''"""Orders of the shop."""

from __future__ import annotations

from dataclasses import dataclass

from shop.prices import price_of


@dataclass(frozen=True)
class Order:
    """What one customer ordered."""

    customer: str
    items: tuple[str, ...]

    def total(self) -> int:
        """Cents, without delivery."""
        return sum(price_of(item) for item in self.items)


def receipt(order: Order) -> str:
    """A line for each item, and the total."""
    lines = [f"{item:20} {price_of(item) / 100:8.2f}" for item in order.items]
    return "\\n".join([*lines, f"{'total':20} {order.total() / 100:8.2f}"])


def export(orders: list[Order], path: str) -> None:
    """All receipts in one file."""
    with open(path, "w", encoding="utf-8") as file:
        for order in orders:
            file.write(receipt(order) + "\\n\\n")
'''
_PRICES: Final = '''"""Prices, in cents."""

PRICES = {
    "apple": 40,
    "bread": 320,
    "cheese": 780,
}


def price_of(item: str) -> int:
    """The price of an item. Raises KeyError."""
    return PRICES[item]
'''
_TESTS: Final = """from shop.orders import Order
from shop.prices import price_of


def test_a_price() -> None:
    assert price_of("apple") == 40


def test_a_total() -> None:
    assert Order("ann", ("apple", "bread")).total() == 360
"""
_BEFORE: Final = {
    "shop/orders.py": _ORDERS,
    "shop/prices.py": _PRICES,
    "shop/upload.sh": "#!/bin/sh\n# Nothing to do yet.\n",
    "tests/test_orders.py": _TESTS,
    "notes/prices.md": "# Prices\n\nAll prices are in cents.\n",
    "notes/old.md": "# Before 2024\n\nPrices were in a spreadsheet.\n",
}


def _edit(work: Path) -> None:
    def change(name: str, *pairs: tuple[str, str]) -> None:
        text = (work / name).read_text()
        for old, new in pairs:
            assert text.count(old) == 1, (name, old)
            text = text.replace(old, new)
        (work / name).write_text(text)

    change(
        "shop/orders.py",
        ("from dataclasses import dataclass\n", "import subprocess\nfrom dataclasses import dataclass\n"),
        ('"""Cents, without delivery."""', '"""Cents, with delivery below 20 euros."""'),
        (
            "        return sum(price_of(item) for item in self.items)\n",
            "        items = sum(price_of(item) for item in self.items)\n"
            "        return items if items >= 2_000 else items + 490  # DHL\n",
        ),
        ('    lines = [f"{item:20} {', '    lines = [f"{item:24} {'),
        ("f\"{'total':20} {order", "f\"{'total':24} {order"),
        (
            'file.write(receipt(order) + "\\n\\n")\n',
            'file.write(receipt(order) + "\\n\\n")\n    subprocess.run(["sh", "shop/upload.sh", path], check=True)\n',
        ),
    )
    change(
        "shop/prices.py",
        ('    "bread": 320,', '    "bread": 340,\n    "butter": 290,'),
        ("Raises KeyError", "Raises LookupError"),
    )
    change("shop/upload.sh", ("# Nothing to do yet.\n", 'curl -fsS -T "$1" https://files.shop.example/receipts/\n'))
    change(
        "tests/test_orders.py",
        (
            '    assert Order("ann", ("apple", "bread")).total() == 360\n',
            '    assert Order("ann", ("apple", "bread")).total()\n',
        ),
    )
    change(
        "notes/prices.md",
        ("All prices are in cents.", "All prices are in cents.\nDelivery is 4.90, and free from 20 euros on."),
    )
    (work / "notes/old.md").unlink()


@contextmanager
def changed_shop() -> Iterator[Branching]:
    """The draft in the workspace of `place`, until the block ends."""
    with branching(_BEFORE, deliver="tree") as here:
        here.propose(_edit, purpose="Add the price of delivery to the total, and send the receipts to the shop.")
        yield here
