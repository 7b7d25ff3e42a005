"""Plans: from the spec, the model's facts and the available GPUs to the sizes of one engine."""
