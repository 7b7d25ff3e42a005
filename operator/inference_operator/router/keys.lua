-- API keys: which user a key belongs to, from a file that a Secret is mounted as.
--
-- The file has a line `USER: SHA256` for each key. Blank lines and lines that start with `#` are skipped. A line may end
-- with `priority=High` or `priority=Low`: the requests of this user leave the queue before, or after, those of others.
--
-- The keys are in MAP, in which HAProxy looks up the hash of a request's key by itself. All threads share it, so this
-- script is loaded once, and no request runs it.
--
-- What it finds is `FIRST:USER:CLASS`, with the class of the user's priority, and with the first hash of the file, which is of a random key, and a secret. The start of its
-- SHA-256 is the mark of the user where others read. Who guesses names cannot compute it, and all routers compute the same.
--
-- Rules:
-- 1. The file is read at the start and then every PERIOD. Keys that are gone leave the map before new ones come in.
-- 2. A line that is not `USER: SHA256` is skipped and named in the log by its number, never by its content. So is a
--    hash that an earlier line has given to another user.
-- 3. While the file cannot be read, the former content stays. Before it was read once, no key is valid.
-- 4. All keys of a user have the last priority that one of its lines states.
-- 5. A user may have several keys, so that an old one and a new one are valid during a rotation.
--
-- The script sees hashes of keys, never keys.

local PERIOD = 5000 -- milliseconds
local MAX_BYTES = 1048576 -- a Secret has at most 1 MiB
local MAX_USER_BYTES = 63
local CLASSES = { High = -1, Low = 1 } -- the queue takes smaller ones first; 0 without a priority

-- `FIRST:USER:CLASS` by hash, the number of users, and the numbers of the lines that were skipped.
local function parsed(text)
  local users, classes, named, count, skipped, number, first = {}, {}, {}, 0, {}, 0, nil
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    number = number + 1
    if line:find("%S") and not line:find("^%s*#") then
      local user, hash, priority = line:match("^%s*(%w[%w._@-]*)%s*:%s*(%x+)%s*(%S*)%s*$")
      local class = CLASSES[(priority or ""):match("^priority=(%a+)$")]
      hash = hash and hash:lower()
      local is_valid = hash and #hash == 64 and #user <= MAX_USER_BYTES and (priority == "" or class)
      if is_valid and not (users[hash] and users[hash] ~= user) then
        first = first or hash
        if not named[user] then
          named[user], count = true, count + 1
        end
        users[hash], classes[user] = user, class or classes[user]
      else
        skipped[#skipped + 1] = number
      end
    end
  end
  for hash, user in pairs(users) do
    users[hash] = string.format("%s:%s:%d", first, user, classes[user] or 0)
  end
  return users, count, skipped
end

-- Without HAProxy, for tests.
if not core then
  return parsed
end

local path, MAP = ...
local users, content = {}, nil
local count_of_users, skipped_lines = 0, 0

local function read()
  local file <close> = io.open(path, "r")
  -- An empty file is read as nil.
  return file and (file:read(MAX_BYTES) or "")
end

-- Make the map hold these users, by hash.
local function fill(new)
  for hash in pairs(users) do
    if not new[hash] then
      core.del_map(MAP, hash)
    end
  end
  for hash, user in pairs(new) do
    if users[hash] ~= user then
      core.set_map(MAP, hash, user)
    end
  end
  users = new
end

local function load()
  local text = read()
  if not text or text == content then
    return text ~= nil
  end
  local new, count, skipped = parsed(text)
  fill(new)
  content, count_of_users, skipped_lines = text, count, #skipped
  core.log(core.notice, string.format("API keys of %d users", count))
  if #skipped > 0 then
    core.log(core.warning, "lines of the keys file that are not `USER: SHA256`: " .. table.concat(skipped, ", ", 1, math.min(#skipped, 20)))
  end
  return true
end

core.register_init(function()
  if not load() then
    core.log(core.alert, "the keys file " .. path .. " cannot be read: no API key is valid")
  end
end)

core.register_task(function()
  while true do
    core.msleep(PERIOD)
    load()
  end
end)

-- For the page of metrics.lua.
core.register_action("count_keys", { "http-req" }, function(txn)
  txn:set_var("txn.key_users", count_of_users)
  txn:set_var("txn.key_lines_skipped", skipped_lines)
end, 0)
