-- What enters each engine from this process, and how far one request of a user is behind another of the same user.
--
--     lua-load entry.lua FILE MAP PREFIX=MOST ...
--
-- FILE has a line `PREFIX REQUESTS` for servers whose names begin with PREFIX: what all processes together let into one
-- of these engines. Without a line, and without the file, it is MOST for each process, as configured. The file is in the
-- ConfigMap of the configuration, so it changes without a restart.
--
-- Every second, each process learns how many requests the others have, in engines and in their queues (peers.lua):
-- 1. While all have fewer than there is room for, each may let in its own, and an equal part of what is free.
-- 2. Else each has the part of the room that it has of the requests. So they wait as long at each process, as in one
--    queue, and one that has all requests has all the room.
-- 3. Parts are rounded in the order of the processes' identities, so their sum is the room. Each has at least one: 0 is
--    no limit for HAProxy.
-- 4. A number that falls ends no request: fewer come in until it is reached.
--
-- A request is behind those that come later by TURN for each request that its user has (fairness.cfg.j2). TURN is the time
-- in which each user with requests gets one place, if all get as many.

local PERIOD = 1000 -- milliseconds between two looks at the file
local MAX_BYTES = 4096
local MAX_NUMBER = 1e6 -- requests
local KEEP = 0.9 -- part of the largest recent number of requests that counts after a second
local NAME = "*entry*" -- begins like no user
local MEMORY = 0.9 -- part of the measured rate that counts after a second
local LEAST_TURN, LONGEST_TURN = 10, 60000 -- milliseconds; the longest until a rate is measured

-- Requests by prefix in a file's text.
local function parsed(text)
  local room = {}
  for line in text:gmatch("[^\n]+") do
    local prefix, number = line:match("^(%S+) (%d+)$")
    if prefix and #number <= 9 then
      room[prefix] = math.max(1, math.min(tonumber(number), MAX_NUMBER))
    end
  end
  return room
end

-- Where the part of the process `id` of all room begins and ends, from 0 to 1. `requests` has those of each process.
local function part(id, requests, room)
  local sum, processes, before = 0, 0, 0
  for _, number in pairs(requests) do
    sum, processes = sum + number, processes + 1
  end
  local free = math.max(0, room - sum) / processes
  local all = math.max(sum, room)
  for other, number in pairs(requests) do
    before = before + (other < id and (number + free) / all or 0)
  end
  return before, before + (requests[id] + free) / all
end

-- What a process lets into one engine that has room for so many requests.
local function share(from, to, room, most)
  return math.max(1, math.min(most, math.floor(to * room + 0.5) - math.floor(from * room + 0.5)))
end

-- Milliseconds in which each of these users gets one place, at this many places that become free in a second.
local function turn(users, rate)
  return math.floor(math.max(LEAST_TURN, math.min(LONGEST_TURN, 1000 * users / math.max(rate, 0.001))))
end

-- Without HAProxy, for tests.
if not core then
  return { parsed = parsed, part = part, share = share, turn = turn, KEEP = KEEP }
end

local BACKEND, TABLE = "engines", "users"
local arguments = { ... }
local path, MAP = arguments[1], arguments[2]
-- Of each prefix: the configured limit; of each server: the present one.
local most, present = {}, {}
for place = 3, #arguments do
  local prefix, number = arguments[place]:match("^(.+)=(%d+)$")
  most[prefix] = tonumber(number)
end
local room, past, recent, rate, ended, last_turn = {}, {}, 0, 0, nil, nil

local function prefix_of(name)
  local prefix = name:match("^(.-)%d+$")
  return most[prefix] and prefix
end

-- Requests in engines and in the queue, and how often a second an engine has answered one. What is refused, or leaves the
-- queue, frees no place: else who sends and leaves would make turns short. Without requests there is nothing to measure.
local function requests()
  local stats = core.backends[BACKEND]:get_stats()
  local now = stats.hrsp_2xx
  if ended and (stats.scur > 0 or now > ended) then
    rate = rate * MEMORY + math.max(0, now - ended) * (1 - MEMORY)
  end
  ended = now
  return stats.scur, stats.act
end

local function set(from, to)
  for name, server in pairs(core.backends[BACKEND].servers) do
    local prefix = prefix_of(name)
    if prefix then
      local wanted = room[prefix] and share(from, to, room[prefix], most[prefix]) or most[prefix]
      if wanted ~= (present[name] or most[prefix]) then
        server:set_maxconn(string.format("%d", wanted))
        present[name] = wanted
      end
    end
  end
end

peers.tell(function()
  return { string.format("%s %.3f %d", NAME, math.max(recent, core.backends[BACKEND]:get_stats().scur), 0) }
end)

peers.learn(function(answers, _, lag)
  local count, engines = requests()
  recent = math.max(count, recent * KEEP)
  peers.remember(past, recent)
  local all, least = { [peers.identity()] = past[lag + 1] or 0 }, nil
  for _, answer in ipairs(answers) do
    local told = answer.values[NAME]
    all[answer.id] = told and told.demand
  end
  for _, number in pairs(room) do
    least = math.min(number, least or number)
  end
  set(part(peers.identity(), all, (least or 1) * math.max(1, engines)))
  local now = turn(math.max(1, core.backends[TABLE].stktable:info().used), rate)
  if now ~= last_turn then
    core.set_map(MAP, "turn", tostring(now))
    last_turn = now
  end
end)

local function read()
  local file <close> = io.open(path, "r")
  local text = file and file:read(MAX_BYTES)
  room = parsed(text or "")
end

core.register_init(read)

core.register_task(function()
  while true do
    core.msleep(PERIOD)
    read()
  end
end)
