-- An InferenceDeployment follows kstatus. Its conditions are about the specification with the number
-- status.observedGeneration. Stalled is true if waiting does not help.
local health = {status = "Progressing", message = "Waiting for the operator."}
if obj.status == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return health
end
local condition = {}
for _, found in ipairs(obj.status.conditions or {}) do
  condition[found.type] = found
end
if condition.Ready == nil then
  return health
end
health.message = condition.Ready.message
if condition.Stalled ~= nil and condition.Stalled.status == "True" then
  health.status = "Degraded"
  health.message = condition.Stalled.message
elseif condition.Ready.reason == "Paused" then
  health.status = "Suspended"
elseif condition.Reconciling ~= nil and condition.Reconciling.status == "True" then
  health.message = condition.Reconciling.message
elseif condition.Ready.status == "True" then
  health.status = "Healthy"
end
return health
