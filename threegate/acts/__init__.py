"""What a person does, signed: approve, reject, grant, cancel, retry, countersign, replay, operator keys."""
