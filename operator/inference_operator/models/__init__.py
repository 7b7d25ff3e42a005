"""Facts of models: from their config, the catalogue, or an inspection."""
