-- Limits of each API key's user: a rate and a number of requests in flight, over all processes of all routers.
--
--     lua-load limits.lua REQUESTS_PER_MINUTE MAX_CONCURRENT
--
-- A limit of 0 is none. Loaded once for all threads: they share one state.
--
-- Every second, each process learns what all others know of each user (peers.lua): demand (recent requests, the refused
-- ones too) and requests in flight. It then takes a share of each limit:
-- 1. Its share is its part of the demand. So it has nearly all of the limit if it gets nearly all requests.
-- 2. Rate: a token bucket that fills with its share of the rate. Shares add up to one, so the sum of rates is the limit.
-- 3. Concurrency: its share, and at most what the others leave. If all together have more than the limit, each has the
--    part of the limit that it has of the sum: else all would stop at once, and begin at once. A fraction is rounded at
--    random, so that many processes with small shares are right on average. A user without any request in flight
--    always gets one.
--
-- HAProxy interrupts this script between any two instructions and runs other requests and tasks. So no loop uses
-- `pairs` on a table that others add to: Lua forbids that.

local PERIOD = 1 -- seconds between two exchanges
local MAX_USERS = 16384 -- a Secret has no room for more keys
local KEEP = 0.9 -- part of the demand that is left after a period
local IDLE = 0.01 -- demand of a process without requests: without any demand, all have the same share
local STAR = 42 -- `*` begins the names of what is no user (entry.lua)
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
    entry = { demand = 0, past = {}, share = share, at = now, most = math.max(1, math.floor(self.concurrent * share)), others = 0 }
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

-- Take the share of each user. `answers` are the others' users, which are `lag` rounds old; `in_flight` returns the requests
-- of a user in this process.
function Limiter:learn(answers, in_flight, now, lag)
  self.processes = #answers + 1
  for _, users in ipairs(answers) do
    for user in pairs(users) do
      if #self.names < MAX_USERS and user:byte() ~= STAR then
        self:entry(user, now)
      end
    end
  end
  for place = #self.names, 1, -1 do
    local user = self.names[place]
    if not self:shared(user, answers, in_flight, now, lag) then
      self.users[user] = nil
      table.remove(self.names, place)
    end
  end
end

-- Take the share of a user; false if nobody has asked for it for long.
function Limiter:shared(user, answers, in_flight, now, lag)
  local entry = self.users[user]
  if not entry then
    return false
  end
  self:refill(entry, now)
  peers.remember(entry.past, entry.demand)
  local own = (entry.past[lag + 1] or 0) + IDLE
  local demand, others = own, 0
  for _, users in ipairs(answers) do
    local other = users[user]
    demand = demand + IDLE + (other and other.demand or 0)
    others = others + (other and other.in_flight or 0)
  end
  entry.share = own / demand
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

-- What the others are told: a line for each user.
function Limiter:report(in_flight)
  local lines = {}
  for _, user in ipairs(self.names) do
    local entry = self.users[user]
    if entry then
      lines[#lines + 1] = string.format("%s %.3f %d", user, entry.demand, in_flight(user))
    end
  end
  return lines
end

-- Without HAProxy, for tests.
if not core then
  return { Limiter = Limiter, MAX_USERS = MAX_USERS }
end

local TABLE = "users"
local per_minute, concurrent = ...
local limiter = Limiter.new(tonumber(per_minute), tonumber(concurrent))

local function in_flight(user)
  local entry = core.backends[TABLE].stktable:lookup(user)
  return entry and entry.conn_cur or 0
end

peers.tell(function()
  return limiter:report(in_flight)
end)

peers.learn(function(answers, time, lag)
  local users = {}
  for place, answer in ipairs(answers) do
    users[place] = answer.values
  end
  limiter:learn(users, in_flight, time, lag)
end)

-- Of `USER:IN_FLIGHT`, `REASON:SECONDS` if the request is refused. Without a number, the table of users is full. An action
-- costs 6 µs more: HAProxy makes a dozen tables for it.
core.register_converters("limit", function(asked)
  local user, in_flight = asked:match("^(.*):(%d*)$")
  -- Only a rate needs the time, for which HAProxy makes a table.
  local reason, seconds = limiter:refusal(user, (tonumber(in_flight) or 1) - 1, limiter.rate > 0 and peers.now() or 0)
  if reason then
    return reason .. ":" .. seconds
  end
end)
