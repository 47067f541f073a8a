"""What a person is shown before deciding."""
