-- The targets of an alias: which one a request goes to, and which one next if that cannot take it.
--
--     lua-load-per-thread gateway.lua
--
-- The value of an alias is `*` and its targets: `WEIGHT|ADDRESS|PORT|MODEL;...`, and with `f` in place of a weight those that
-- only take what another could not. An address has no `|`, and a model neither. No other request runs it.
--
-- A user, or else a session, stays at one target: that of the highest score, by weighted rendezvous hashing. A changed
-- weight moves only those whose target it concerns (Schindelhauer and Schomaker, "Weighted distributed hash tables", 2005).

local LARGEST = 4294967296 -- of xxh32, and one more

-- Targets with a weight, and those for what others could not take, as texts `ADDRESS|PORT|MODEL`.
local function targets(value)
  local weighted, fallbacks = {}, {}
  for one in value:sub(2):gmatch("[^;]+") do
    local weight, route = one:match("^([%df]+)|(.+)$")
    if weight == "f" then
      fallbacks[#fallbacks + 1] = route
    elseif tonumber(weight) and tonumber(weight) > 0 then
      weighted[#weighted + 1] = { route = route, weight = tonumber(weight), model = route:match("[^|]*$") }
    end
  end
  return weighted, fallbacks
end

-- The target for a key, and the next one; nil where there is none. `hash` makes a number below LARGEST of a text.
local function choice(value, key, hash)
  local weighted, fallbacks = targets(value)
  local best, most = nil, -1
  for _, target in ipairs(weighted) do
    local share = (hash(key .. "/" .. target.model) + 0.5) / LARGEST
    local score = -target.weight / math.log(share)
    if score > most then
      best, most = target.route, score
    end
  end
  if best then
    return best, fallbacks[1]
  end
  return fallbacks[1], fallbacks[2]
end

-- Without HAProxy, for tests.
if not core then
  return choice
end

core.register_action("choose_target", { "http-req" }, function(txn)
  local function hash(text)
    return txn.c:xxh32(text)
  end
  local key = txn:get_var("txn.user") or txn:get_var("txn.session") or txn:get_var("txn.request_id") or ""
  local first, second = choice(txn:get_var("txn.named"), key, hash)
  txn:set_var("txn.named", first or "-|Stalled")
  if second then
    txn:set_var("txn.next", second)
  end
end, 0)

-- Names with counters of their own, of each thread. Others share one: a list may have thousands of adapters.
local MAX_MODELS, OTHER = 256, "other"
local models, model_count = {}, 0

core.register_action("count_target", { "http-after-res" }, function(txn)
  local metrics = router_metrics
  local name = metrics.label(txn:get_var("txn.model"))
  if not models[name] and model_count < MAX_MODELS then
    models[name], model_count = name, model_count + 1
  end
  local model, target = models[name] or OTHER, metrics.label(txn:get_var("txn.target"))
  local class = (txn.f:status() or 0) // 100
  metrics.count(txn, ('model_requests_total{model="%s",target="%s",code="%dxx"}'):format(model, target, class), 1)
  local first = txn:get_var("txn.fallback")
  if first then
    metrics.count(txn, ('fallbacks_total{model="%s",target="%s"}'):format(model, metrics.label(first)), 1)
  end
end, 0)
