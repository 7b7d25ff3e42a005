-- Replaces the engines one by one, by an annotation of their pods. Its value is the generation before the change. So it is
-- different each time.
obj.spec.podTemplate = obj.spec.podTemplate or {}
obj.spec.podTemplate.annotations = obj.spec.podTemplate.annotations or {}
obj.spec.podTemplate.annotations["renewed-at-generation"] = tostring(obj.metadata.generation)
return obj
