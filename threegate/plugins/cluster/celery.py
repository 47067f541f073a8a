"""Celery as a worker uses it: JSON only, late acknowledgement, nothing repeated, nothing declared.

Settings are those of docs/cluster.md; `worker_cancel_long_running_tasks_on_connection_loss` is not among them, since a
worker fences its runs itself (threegate.plugins.cluster.worker.heartbeat), also when only the daemon is gone.
"""

from __future__ import annotations

from typing import Any

import celery
import kombu

from threegate.core import limits
from threegate.plugins.cluster import raw_transport
from threegate.plugins.cluster.broker import JOB, Broker, queue_of


def make_app(broker: Broker, worker: str) -> celery.Celery:
    """The Celery app of a worker of this name."""
    app = celery.Celery("threegate", set_as_current=False, fixups=[])
    exchange = kombu.Exchange(JOB, type="direct", no_declare=True)
    name, kind = queue_of(JOB, worker), {"x-queue-type": "quorum"}  # Celery sees by it how to prefetch
    queue = kombu.Queue(name, exchange, routing_key=worker, no_declare=True, queue_arguments=kind)
    settings: dict[str, Any] = {
        "broker_url": broker.kombu_url,
        "broker_transport": raw_transport.NAME,
        "broker_use_ssl": broker.tls(),
        "broker_login_method": "EXTERNAL",
        "broker_heartbeat": limits.CLUSTER_HEARTBEAT_SECONDS,
        "broker_transport_options": broker.transport_options(),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_native_delayed_delivery_queue_type": "classic",
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "result_accept_content": ["json"],
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        "task_acks_late": True,
        "task_acks_on_failure_or_timeout": True,
        "task_reject_on_worker_lost": False,
        "task_create_missing_queues": False,
        "task_queues": [queue],
        "task_default_queue": name,
        "task_default_exchange": JOB,
        "worker_prefetch_multiplier": 1,
        "worker_detect_quorum_queues": True,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "enable_utc": True,
    }
    app.conf.update(settings)
    return app
