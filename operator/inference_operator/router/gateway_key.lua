-- The key that ModelGateways send, from a file that a Secret is mounted as, where the namespace has a gateway.
--
-- It is put into MAP, in which HAProxy looks it up by itself; no request runs this script.
--
-- Rules:
-- 1. The file is read at the start and then every PERIOD.
-- 2. A key that another one has replaced stays valid for FORMER: until every gateway sends the new one.
-- 3. While the file is missing, is empty or holds no key, the former content stays valid for the same time, since a
--    Secret is renewed by its deletion. Then no key is valid. Gateways come and go while routers serve.

local PERIOD = 5000 -- milliseconds
local FORMER = 900 -- seconds
local MAX_BYTES = 1024
local LEAST_LETTERS = 32 -- shorter ones could be guessed

local current, former, former_until, missing_until

-- The keys that are valid from now on, by the text of the file: the current one and the one before.
local function valid(text, now)
  local new = text and text:match("^%s*(%w+)%s*$")
  if new and #new < LEAST_LETTERS then
    new = nil
  end
  if new then
    missing_until = nil
    if current and new ~= current then
      former, former_until = current, now + FORMER
    end
    current = new
  else
    missing_until = missing_until or now + FORMER
    if now >= missing_until then
      current = nil
    end
  end
  if former and now >= former_until then
    former = nil
  end
  return current, former
end

-- Without HAProxy, for tests.
if not core then
  return valid
end

local path, MAP, CURRENT, FORMER_ENTRY = ...
local entries = {}

local function put(entry, key)
  if key and key ~= entries[entry] then
    core.set_map(MAP, entry, key)
  elseif not key and entries[entry] then
    core.del_map(MAP, entry)
  end
  entries[entry] = key
end

local function load(now)
  local file <close> = io.open(path, "r")
  local text = file and file:read(MAX_BYTES)
  local key, before = valid(text, now)
  put(CURRENT, key)
  put(FORMER_ENTRY, before)
end

core.register_init(function()
  load(0)
end)

core.register_task(function()
  while true do
    load(core.now().sec)
    core.msleep(PERIOD)
  end
end)
