"""What a model's files say of it, read where they are: on a hub, in a volume, in an image."""
