-- What each HAProxy process tells the others of all routers: `NAME DEMAND IN_FLIGHT`, a line for each value.
--
--     lua-load peers.lua NAME SOCKET PORTS
--
-- Loaded once for all threads, before the scripts that tell and learn. NAME is the DNS name of the routers: a process
-- answers only those that know it, so a pod that has got the address of a former router is not taken for one.
--
-- 1. Every second, each process asks the addresses that DNS names, and is told nothing that it did not ask for.
-- 2. An answer counts only as a whole: without its last line, with more than MAX_BYTES, or after ANSWER seconds, it is
--    dropped. Who sends slowly delays only the questions to itself.
-- 3. What a process has not told for FORGET seconds does not count any more.
-- 4. What the others told is older than what a process knows of itself. It is compared with the own value before the
--    question: else two processes whose requests come at the same time would both take what is free. `lag` is how many
--    own rounds came after it. A process that refuses, or whose answer is older than MAX_LAG, has probably ended: it counts,
--    and makes no lag.
-- 5. A process that ends asks nobody, and keeps what it knows. Until its last question is over, it cannot end: so it asks
--    through SOCKET, where HAProxy limits how long a connection takes (entry.cfg.j2).

local PERIOD = 1 -- seconds between two questions
local ANSWER = 1 -- seconds that an answer may take
local MAX_BYTES = 2097152 -- of an answer: MAX_VALUES lines of MAX_LINE bytes
local MAX_LINE = 128 -- bytes
local MAX_VALUES = 16384 -- a Secret has no room for more keys
local MAX_NUMBER = 1e9 -- of requests
local CHUNK = 512 -- bytes that are read at a time
local ROUND = PERIOD + 2 * ANSWER -- seconds until both processes of a pod are asked again, where their answers are late
local FORGET = 3 * ROUND + PERIOD -- seconds; two rounds may fail
local MAX_LAG = ROUND // PERIOD + 2 -- rounds, of one PERIOD at least; one more on a busy machine
local REFUSED = ANSWER / 2 -- seconds within which there is no answer where nobody listens

-- Who tells, lists of lines, and an end.
local function report(id, lists)
  local lines = { "process " .. id }
  for _, list in ipairs(lists) do
    table.move(list, 1, #list, #lines + 1, lines)
  end
  lines[#lines + 1] = "end"
  return table.concat(lines, "\n")
end

-- The process and its values in an answer; nil for anything else.
local function parsed(text)
  local _, head = text:find("\r\n\r\n", 1, true)
  local id, last
  local values, count = {}, 0
  for line in text:sub((head or #text) + 1):gmatch("[^\n]+") do
    -- A pattern takes the square of the length of what it does not match.
    line = #line <= MAX_LINE and line or ""
    if not id then
      id = line:match("^process (%S+)$")
      if not id then
        return nil
      end
    elseif count < MAX_VALUES then
      local name, demand, in_flight = line:match("^(%S+) (%d+%.?%d*) (%d+)$")
      if name then
        values[name] = { demand = math.min(tonumber(demand), MAX_NUMBER), in_flight = math.min(tonumber(in_flight), MAX_NUMBER) }
        count = count + 1
      end
    end
    last = line
  end
  if last ~= "end" then
    return nil
  end
  return id, values
end

peers = {}

-- Add the value of this round to those of rounds before, newest first. The one of `lag` rounds ago is `past[lag + 1]`.
function peers.remember(past, value)
  table.insert(past, 1, value)
  past[MAX_LAG + 2] = nil
end

-- The answers that count, and their lag behind own rounds at these times, newest first.
local function counted(answers, rounds)
  local now, places, others, asked, lag = rounds[1], {}, {}, rounds[1], 0
  for _, answer in ipairs(answers) do
    -- Two slots may have the address of one process: its last answer counts.
    local place = answer.id and (places[answer.id] or #others + 1)
    if place and now - answer.at <= FORGET and not (others[place] and others[place].at >= answer.at) then
      places[answer.id], others[place] = place, answer
    end
  end
  for _, answer in ipairs(others) do
    asked = (answer.refused or now - answer.at > MAX_LAG * PERIOD) and asked or math.min(asked, answer.at)
  end
  while lag < MAX_LAG and (rounds[lag + 1] or 0) > asked do
    lag = lag + 1
  end
  return others, lag
end

-- Without HAProxy, for tests.
if not core then
  return { report = report, parsed = parsed, counted = counted, remember = peers.remember, MAX_BYTES = MAX_BYTES }
end

local PEERS = "router_peers"
local name, through, listed = ...
-- `answers` has a table for each slot and port from the start, `{ id, at, values, refused }`.
local ports, answers, rounds, tellers, learners, identity = {}, {}, {}, {}, {}, nil
for port in listed:gmatch("%d+") do
  ports[#ports + 1] = tonumber(port)
end

function peers.now()
  local time = core.now()
  return time.sec + time.usec / 1e6
end

function peers.identity()
  if not identity then
    local info = core.get_info()
    identity = string.format("%s/%s/%s", info.node or "", os.getenv("METRICS_PORT") or "", info.Pid or "")
  end
  return identity
end

-- `teller()` returns lines that the others are told.
function peers.tell(teller)
  tellers[#tellers + 1] = teller
end

-- `learner(answers, now, lag)` gets `{ id, values }` of each other process, every PERIOD.
function peers.learn(learner)
  learners[#learners + 1] = learner
end

-- What an address answers, as far as it comes within ANSWER seconds and MAX_BYTES.
local function answer_of(address, port)
  local socket = core.tcp()
  socket:settimeout(ANSWER)
  local chunks, bytes, ends = {}, 0, peers.now() + ANSWER
  if socket:connect(through) then
    local from = address:find(":", 1, true) and "TCP6 ::1" or "TCP4 127.0.0.1"
    socket:send(string.format("PROXY %s %s 0 %d\r\nGET /limits/%s HTTP/1.0\r\n\r\n", from, address, port, name))
    repeat
      local chunk = socket:receive(CHUNK)
      chunks[#chunks + 1] = chunk
      bytes = bytes + #(chunk or "")
    until not chunk or bytes > MAX_BYTES or peers.now() > ends
  end
  socket:close()
  return table.concat(chunks)
end

local function is_ending()
  return core.get_info().Stopping == 1
end

local function follow(server, told)
  while true do
    local address = server:get_addr():match("^%[?([%x.:]+)%]?:%d+$")
    if address and not (server:get_stats().status or ""):find("^MAINT") then
      for _, port in ipairs(ports) do
        if is_ending() then
          return
        end
        local asked, answer = peers.now(), told[port]
        local id, values = parsed(answer_of(address, port))
        if id and id ~= peers.identity() then
          answer.id, answer.values, answer.at, answer.refused = id, values, asked, false
        else
          answer.refused = peers.now() - asked < REFUSED
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
    if is_ending() then
      return
    end
    peers.remember(rounds, peers.now())
    local others, lag = counted(answers, rounds)
    for _, learner in ipairs(learners) do
      learner(others, rounds[1], lag)
    end
  end
end)

core.register_service("limits", "http", function(applet)
  -- A service reads before it waits, here to send (docs/explanation/router.md).
  applet:receive(1)
  local lists = {}
  for place, teller in ipairs(tellers) do
    lists[place] = teller()
  end
  local text = report(peers.identity(), lists)
  applet:set_status(200)
  applet:add_header("content-type", "text/plain")
  applet:add_header("content-length", #text)
  applet:start_response()
  applet:send(text)
end)
