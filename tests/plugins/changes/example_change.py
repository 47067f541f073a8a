"""A change of a project, as a request asks for it and as a Job has it."""

from __future__ import annotations

from threegate.plugins.changes.action import Changes, ProjectChange

PROJECT = ProjectChange("web", Changes("a" * 64, 1, 0, 0, 0, 0))
