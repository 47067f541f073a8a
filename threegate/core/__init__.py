"""What every room builds on: settings, limits, errors, durable files, canonical JSON, the workspace's folders."""
