"""The controller: work queue, informer cache, listings, drift detection and the reconciler."""
