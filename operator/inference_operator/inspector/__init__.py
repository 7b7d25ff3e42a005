"""The reader of `infd inspect`: a model's config and file sizes, from the hub, a volume or an image."""
