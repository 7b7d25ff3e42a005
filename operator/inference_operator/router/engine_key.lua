-- The key that engines ask of their routers, from a file that a Secret is mounted as.
--
-- It is put into MAP, from which HAProxy writes a header by itself; no request runs this script.
--
-- Rules:
-- 1. The file is read at the start and then every PERIOD.
-- 2. A key that replaces another one is sent only after DELAY: until then every engine has it too, and takes both. The
--    kubelet brings a changed Secret within its sync period of a minute and the age of its cache.
-- 3. While the file cannot be read or is empty, the former key stays.

local PERIOD = 5000 -- milliseconds
local DELAY = 180 -- seconds
local MAX_BYTES = 1024

local key, coming, since = nil, nil, 0

-- The key to send from now on, by the text of the file; nil if nothing changes.
local function changed(text, now)
  local new = text and text:match("^%s*(%w+)%s*$")
  if not new or new == key then
    coming = nil
  elseif key and new ~= coming then
    coming, since = new, now
  elseif not key or now - since >= DELAY then
    key, coming = new, nil
    return key
  end
end

-- Without HAProxy, for tests.
if not core then
  return changed
end

local path, MAP, ENTRY = ...

local function load(now)
  local file <close> = io.open(path, "r")
  local text = file and file:read(MAX_BYTES)
  local new = changed(text, now)
  if new then
    core.set_map(MAP, ENTRY, new)
    core.log(core.notice, "the key of the engines is in use")
  end
end

core.register_init(function()
  load(0)
  if not key then
    core.log(core.alert, "the file " .. path .. " has no key: engines will refuse requests")
  end
end)

core.register_task(function()
  while true do
    core.msleep(PERIOD)
    load(core.now().sec)
  end
end)
