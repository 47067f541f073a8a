"""What an auditor reads afterwards: verification, trail checkpoints, exports, reports, metrics."""
