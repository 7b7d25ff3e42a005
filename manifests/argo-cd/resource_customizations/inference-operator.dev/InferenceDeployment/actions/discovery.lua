local paused = obj.spec.paused == true
local external = obj.spec.router ~= nil and obj.spec.router.strategy == "External"
return {
  ["pause"] = {disabled = paused},
  ["resume"] = {disabled = not paused},
  ["renew"] = {disabled = paused},
  ["renew-routers"] = {disabled = paused or external}, -- no router runs with this strategy
}
