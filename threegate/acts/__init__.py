"""What a person does, signed: approve, reject, grant, cancel, retry, countersign, replay, manage operator keys."""
