-- Replaces the routers one by one, after they have finished their requests, as the action renew does with engines.
obj.spec.router = obj.spec.router or {}
obj.spec.router.podTemplate = obj.spec.router.podTemplate or {}
obj.spec.router.podTemplate.annotations = obj.spec.router.podTemplate.annotations or {}
obj.spec.router.podTemplate.annotations["renewed-at-generation"] = tostring(obj.metadata.generation)
return obj
