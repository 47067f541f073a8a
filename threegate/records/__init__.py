"""What an auditor reads afterwards: verification, checkpoints, exports, reports, metrics."""
