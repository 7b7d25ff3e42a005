-- The models of the API: the names of the base model, and the adapters that routers advertise.
--
--     lua-load adapters.lua FILE MAP NAME...
--
-- FILE has the name of one adapter a line; the operator writes it. MAP is what rules look names up in, with the value
-- `model` or `adapter`. All threads share both, so this script is loaded once, and no usual request runs it.
--
-- In a gateway FILE has all names, each with a value of its own behind a blank: where its requests go. What begins with `-`
-- is known and not listed.
--
-- Rules:
-- 1. The file is read at the start and then every PERIOD. While it cannot be read, the former content stays.
-- 2. A line that is no name of a model is skipped: the file is mounted from an object that others may edit.
-- 3. The answer to an unknown name quotes it only if it could be a name, and names the nearest of the known ones: that
--    with which it has most pairs of letters in common, and half of all at least.

local PERIOD = 500 -- milliseconds
local MAX_BYTES = 1048576 -- a ConfigMap has at most 1 MiB
local MAX_NAMES, MAX_NAME_BYTES = 16384, 253
-- Of more names than these, only those with the first letter of the unknown one are compared with it, and as many.
local COMPARED = 256
local NAME = "^%w[%w%._/:-]*$"
local LEAST_COMMON = 0.5

-- The names in a text, in its order, each once; and their values.
local function parsed(text)
  local names, known = {}, {}
  for line in text:sub(1, MAX_BYTES):gmatch("[^\r\n]+") do
    local name, value = line:match("^(%S+) ([*%-%w][%w.:;-]*|[%w.:|;-]*)$")
    name = name or line
    if #name <= MAX_NAME_BYTES and name:find(NAME) and not known[name] and #names < MAX_NAMES then
      names[#names + 1], known[name] = name, value or "adapter"
    end
  end
  return names, known
end

-- The pairs of neighbouring letters of a name, with their number.
local function pairs_of(name)
  local found, count = {}, 0
  name = " " .. name:lower() .. " "
  for place = 1, #name - 1 do
    local pair = name:sub(place, place + 1)
    found[pair] = (found[pair] or 0) + 1
    count = count + 1
  end
  return found, count
end

-- The name that is nearest to an unknown one; nil if none is near.
local function nearest(asked, names)
  local own, count = pairs_of(asked)
  local best, most, compared = nil, LEAST_COMMON, 0
  local first = #names > COMPARED and asked:sub(1, 1):lower()
  for _, name in ipairs(names) do
    if compared < COMPARED and (not first or name:sub(1, 1):lower() == first) then
      compared = compared + 1
      local other, others = pairs_of(name)
      local common = 0
      for pair, times in pairs(own) do
        common = common + math.min(times, other[pair] or 0)
      end
      local share = 2 * common / (count + others)
      if share > most or (share == most and not best) then
        best, most = name, share
      end
    end
  end
  return best
end

-- The body of the answer to an unknown name. Names have no character that JSON or a log-format would misread.
local function unknown(asked, names)
  local message = "the model does not exist"
  if #asked <= MAX_NAME_BYTES and asked:find(NAME) then
    message = "the model `" .. asked .. "` does not exist"
    local near = nearest(asked, names)
    message = near and message .. ". Did you mean `" .. near .. "`?" or message
  end
  return '{"error": {"message": "' .. message .. '", "type": "invalid_request_error", "param": "model", "code": "model_not_found"}}'
end

-- One model in the form of the OpenAI API; `parent` is the base model of an adapter.
local function model(name, parent, created)
  local of = parent and ', "parent": "' .. parent .. '"' or ""
  return ('{"id": "%s", "object": "model", "created": %d, "owned_by": "inference-operator"%s}'):format(name, created, of)
end

local function decoded(path)
  return (path:gsub("%%(%x%x)", function(hex)
    return string.char(tonumber(hex, 16))
  end))
end

-- Status and body of an answer about models: of all, or of the one after `/v1/models/`.
local function answer(path, base, adapters, created)
  local asked = decoded(path):match("^/v1/models/(.+)$")
  local every, items = {}, {}
  for _, name in ipairs(base) do
    every[#every + 1] = name
    items[#items + 1] = model(name, nil, created)
    if name == asked then
      return 200, items[#items]
    end
  end
  for _, name in ipairs(adapters) do
    every[#every + 1] = name
    items[#items + 1] = model(name, base[1], created)
    if name == asked then
      return 200, items[#items]
    end
  end
  if asked then
    return 404, unknown(asked, every)
  end
  return 200, '{"object": "list", "data": [' .. table.concat(items, ", ") .. "]}"
end

-- Without HAProxy, for tests.
if not core then
  return { parsed = function(text) return (parsed(text)) end, values = function(text) return select(2, parsed(text)) end, nearest = nearest, unknown = unknown, answer = answer }
end

local arguments = { ... }
local path, MAP = arguments[1], arguments[2]
local base = { table.unpack(arguments, 3) }
local adapters, values, content = {}, {}, nil

local function load()
  local file <close> = io.open(path, "r")
  -- An empty file is read as nil.
  local text = file and (file:read(MAX_BYTES) or "")
  if not text or text == content then
    return
  end
  local former = values
  local names, new = parsed(text)
  for _, name in ipairs(base) do
    new[name] = "model"
  end
  for name, value in pairs(new) do
    if former[name] ~= value then
      core.set_map(MAP, name, value)
    end
  end
  adapters, values, content = {}, new, text
  for _, name in ipairs(names) do
    if new[name]:sub(1, 1) ~= "-" then
      adapters[#adapters + 1] = name
    end
  end
  for name in pairs(former) do
    if not new[name] then
      core.del_map(MAP, name)
    end
  end
  core.log(core.notice, #names .. " adapters")
end

core.register_init(function()
  for _, name in ipairs(base) do
    core.set_map(MAP, name, "model")
  end
  load()
end)

core.register_task(function()
  while true do
    core.msleep(PERIOD)
    load()
  end
end)

core.register_action("unknown_model", { "http-req" }, function(txn)
  local every = { table.unpack(base) }
  table.move(adapters, 1, #adapters, #every + 1, every)
  txn:set_var("txn.unknown", unknown(txn:get_var("txn.asked") or "", every))
end, 0)

core.register_service("models", "http", function(applet)
  -- A service reads before it waits, here to send (docs/explanation/router.md).
  applet:receive(1)
  local status, body = answer(applet.path, base, adapters, core.now().sec)
  applet:set_status(status)
  applet:add_header("content-type", "application/json")
  applet:add_header("content-length", #body)
  applet:start_response()
  applet:send(body)
end)
