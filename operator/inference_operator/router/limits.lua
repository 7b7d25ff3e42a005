-- Limits of each API key's user: a rate and a number of requests in flight, over all processes of all routers.
--
--     lua-load limits.lua REQUESTS_PER_MINUTE MAX_CONCURRENT NAME PORTS
--
-- A limit of 0 is none. Loaded once for all threads: they share one state. NAME is the DNS name of the routers: a process
-- answers only those that know it, so a pod that has got the address of a former router is not taken for one.
--
-- Every second, each process asks all others what they know of each user: demand (recent requests, the refused ones
-- too) and requests in flight. It then takes a share of each limit:
-- 1. Its share is its part of the demand. So it has nearly all of the limit if it gets nearly all requests.
-- 2. Rate: a token bucket that fills with its share of the rate. Shares add up to one, so the sum of rates is the limit.
-- 3. Concurrency: its share, and at most what the others leave. If all together have more than the limit, each has the
--    part of the limit that it has of the sum: else all would stop at once, and begin at once. A fraction is rounded at
--    random, so that many processes with small shares are right on average. A user without any request in flight
--    always gets one.
-- 4. What others told is up to LAG periods old. A process compares it with its own demand of then: else two
--    processes whose demand rises at the same time would both take the whole limit.
-- 5. What a process has not told for FORGET seconds does not count any more: the others take its share.
--
-- A process asks the addresses that DNS names, and is told nothing that it did not ask for. An answer counts only as a
-- whole: without its last line, with more than MAX_BYTES, or after ANSWER seconds, it is dropped. Who sends slowly delays
-- only the questions to itself.
--
-- HAProxy interrupts this script between any two instructions and runs other requests and tasks. So no loop uses
-- `pairs` on a table that others add to: Lua forbids that.

local PERIOD = 1 -- seconds between two questions
local ANSWER = 1 -- seconds that an answer may take
local MAX_BYTES = 2097152 -- of an answer: MAX_USERS lines of MAX_LINE bytes
local MAX_LINE = 128 -- bytes
local MAX_USERS = 16384 -- a Secret has no room for more keys
local MAX_NUMBER = 1e9 -- of requests
local CHUNK = 512 -- bytes that are read at a time
local FORGET = 3
local LAG = 2
local KEEP = 0.9 -- part of the demand that is left after a period
local IDLE = 0.01 -- demand of a process without requests: without any demand, all have the same share
local BURST = 5 -- seconds of the rate that a user may use at once

local Limiter = {}
Limiter.__index = Limiter

function Limiter.new(per_minute, concurrent, random)
  return setmetatable({
    rate = per_minute / 60, concurrent = concurrent, random = random or math.random,
    users = {}, names = {}, processes = 1,
  }, Limiter)
end

function Limiter:cap(entry)
  return math.max(1, entry.share * self.rate * BURST)
end

function Limiter:entry(user, now)
  local entry = self.users[user]
  if not entry then
    local share = 1 / self.processes
    entry = { demand = 0, was = { 0, 0 }, share = share, at = now, most = math.max(1, math.floor(self.concurrent * share)), others = 0 }
    entry.tokens = self:cap(entry)
    self.users[user] = entry
    table.insert(self.names, user)
  end
  return entry
end

function Limiter:refill(entry, now)
  local more = math.max(0, now - entry.at) * self.rate * entry.share
  entry.tokens, entry.at = math.min(self:cap(entry), entry.tokens + more), now
end

-- Nil if the request may pass; else which limit refuses it, and the seconds after which to try again. `in_flight`
-- are this user's requests in this process, without this one.
function Limiter:refusal(user, in_flight, now)
  local entry = self:entry(user, now)
  entry.demand = entry.demand + 1
  if self.concurrent > 0 and in_flight >= entry.most and in_flight + entry.others > 0 then
    return "concurrency", PERIOD
  end
  if self.rate > 0 then
    self:refill(entry, now)
    if entry.tokens < 1 then
      local seconds = math.ceil((1 - entry.tokens) / (self.rate * entry.share))
      return "rate", math.max(1, math.min(60, seconds))
    end
    entry.tokens = entry.tokens - 1
  end
  return nil
end

-- Take the share of each user. `peers` are the others' users, `in_flight` returns the requests of a user in this process.
function Limiter:learn(peers, in_flight, now)
  self.processes = #peers + 1
  for _, users in ipairs(peers) do
    for user in pairs(users) do
      if #self.names < MAX_USERS then
        self:entry(user, now)
      end
    end
  end
  for place = #self.names, 1, -1 do
    local user = self.names[place]
    if not self:shared(user, peers, in_flight, now) then
      self.users[user] = nil
      table.remove(self.names, place)
    end
  end
end

-- Take the share of a user; false if nobody has asked for it for long.
function Limiter:shared(user, peers, in_flight, now)
  local entry = self.users[user]
  if not entry then
    return false
  end
  self:refill(entry, now)
  local was = table.remove(entry.was, 1)
  entry.was[LAG] = entry.demand
  local demand, others = was + IDLE, 0
  for _, users in ipairs(peers) do
    local other = users[user]
    demand = demand + IDLE + (other and other.demand or 0)
    others = others + (other and other.in_flight or 0)
  end
  entry.share = (was + IDLE) / demand
  entry.others = others
  entry.most = self:most(entry.share, in_flight(user), others)
  entry.demand = entry.demand * KEEP
  return entry.demand >= IDLE or others + in_flight(user) > 0
end

-- Requests in flight that this process may have: rule 3.
function Limiter:most(share, own, others)
  local room = self.concurrent - others
  if own > room then
    room = own * self.concurrent / (own + others)
  end
  return math.floor(math.min(share * self.concurrent, room) + self.random())
end

-- What the others are told: who tells it, a line for each user, and an end.
function Limiter:report(id, in_flight)
  local lines = { "process " .. id }
  for _, user in ipairs(self.names) do
    local entry = self.users[user]
    if entry then
      lines[#lines + 1] = string.format("%s %.3f %d", user, entry.demand, in_flight(user))
    end
  end
  lines[#lines + 1] = "end"
  return table.concat(lines, "\n")
end

-- The process and its users in an answer; nil for anything else.
local function parsed(text)
  local _, head = text:find("\r\n\r\n", 1, true)
  local id, last
  local users, count = {}, 0
  for line in text:sub((head or #text) + 1):gmatch("[^\n]+") do
    -- A pattern takes the square of the length of what it does not match.
    line = #line <= MAX_LINE and line or ""
    if not id then
      id = line:match("^process (%S+)$")
      if not id then
        return nil
      end
    elseif count < MAX_USERS then
      local user, demand, in_flight = line:match("^(%S+) (%d+%.?%d*) (%d+)$")
      if user then
        users[user] = { demand = math.min(tonumber(demand), MAX_NUMBER), in_flight = math.min(tonumber(in_flight), MAX_NUMBER) }
        count = count + 1
      end
    end
    last = line
  end
  if last ~= "end" then
    return nil
  end
  return id, users
end

-- Without HAProxy, for tests.
if not core then
  return { Limiter = Limiter, parsed = parsed, MAX_BYTES = MAX_BYTES, MAX_USERS = MAX_USERS }
end

local PEERS, TABLE = "router_peers", "key_limits"
local per_minute, concurrent, name, listed = ...
local limiter = Limiter.new(tonumber(per_minute), tonumber(concurrent))
-- `answers` has a table for each slot and port from the start, `{ id, at, users }`.
local ports, answers, identity = {}, {}, nil
for port in listed:gmatch("%d+") do
  ports[#ports + 1] = tonumber(port)
end

local function now()
  local time = core.now()
  return time.sec + time.usec / 1e6
end

local function in_flight(user)
  local entry = core.backends[TABLE].stktable:lookup(user)
  return entry and entry.conn_cur or 0
end

local function own_identity()
  if not identity then
    local info = core.get_info()
    identity = string.format("%s/%s/%s", info.node or "", os.getenv("METRICS_PORT") or "", info.Pid or "")
  end
  return identity
end

-- What an address answers, as far as it comes within ANSWER seconds and MAX_BYTES.
local function answer_of(address, port)
  local socket = core.tcp()
  socket:settimeout(ANSWER)
  local chunks, bytes, ends = {}, 0, now() + ANSWER
  if socket:connect(address, port) then
    socket:send(string.format("GET /limits/%s HTTP/1.0\r\n\r\n", name))
    repeat
      local chunk = socket:receive(CHUNK)
      chunks[#chunks + 1] = chunk
      bytes = bytes + #(chunk or "")
    until not chunk or bytes > MAX_BYTES or now() > ends
  end
  socket:close()
  return table.concat(chunks)
end

local function follow(server, told)
  while true do
    local address = server:get_addr():match("^%[?([%x.:]+)%]?:%d+$")
    if address and not (server:get_stats().status or ""):find("^MAINT") then
      for _, port in ipairs(ports) do
        local id, users = parsed(answer_of(address, port))
        if id and id ~= own_identity() then
          told[port].id, told[port].users, told[port].at = id, users, now()
        end
      end
    end
    core.msleep(1000 * PERIOD)
  end
end

core.register_init(function()
  math.randomseed(os.time() + (tonumber(os.getenv("METRICS_PORT")) or 0))
  for _, server in pairs(core.backends[PEERS].servers) do
    local told = {}
    for _, port in ipairs(ports) do
      told[port] = {}
      answers[#answers + 1] = told[port]
    end
    core.register_task(function()
      follow(server, told)
    end)
  end
end)

core.register_task(function()
  while true do
    core.msleep(1000 * PERIOD)
    local time, peers, known = now(), {}, {}
    for _, answer in ipairs(answers) do
      -- Two slots may have the address of one process.
      if answer.id and time - answer.at <= FORGET and not known[answer.id] then
        known[answer.id] = true
        peers[#peers + 1] = answer.users
      end
    end
    limiter:learn(peers, in_flight, time)
  end
end)

core.register_action("limit", { "http-req" }, function(txn)
  -- Only a rate needs the time, for which HAProxy makes a table.
  local time = limiter.rate > 0 and now() or 0
  local reason, seconds = limiter:refusal(txn:get_var("txn.shown_user"), (txn:get_var("txn.in_flight") or 1) - 1, time)
  if reason then
    txn:set_var("txn.refused", reason)
    txn:set_var("txn.retry_after", seconds)
  end
end, 0)

core.register_service("limits", "http", function(applet)
  -- A service reads before it waits, here to send (docs/explanation/router.md).
  applet:receive(1)
  local text = limiter:report(own_identity(), in_flight)
  applet:set_status(200)
  applet:add_header("content-type", "text/plain")
  applet:add_header("content-length", #text)
  applet:start_response()
  applet:send(text)
end)
