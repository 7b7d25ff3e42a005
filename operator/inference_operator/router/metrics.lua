-- Metrics that HAProxy's exporter does not have: /metrics/router on a metrics port, in Prometheus' text format.
--
--     lua-load-per-thread metrics.lua THREADS HELD_SECONDS
--
-- Counters: each thread has a Lua state of its own, counts for itself, and puts each of its series into a variable of the
-- process, which only this thread writes. So no thread waits for another. The page adds up the series of all threads.
-- A series is the name of a metric with its labels. There are at most MAX_SERIES of them in a thread, and USER_SERIES
-- before users without one share the label `other`: users come from a file of the owner, and it may name thousands.
--
-- Gauges: the requests that run, are queued and are held, read from HAProxy when the page is asked for.

local THREADS, HELD_SECONDS = ...
THREADS, HELD_SECONDS = tonumber(THREADS) or 1, tonumber(HELD_SECONDS) or 0
local PREFIX = "inference_operator_router_"
local BACKEND, HOLD, GATE = "engines", "hold", "gate"
local MAX_SERIES, USER_SERIES = 4096, 3584
local USER, OTHER = 'user="[^"]*"', 'user="other"'
-- How often a waiting page looks for requests. It delays a start from zero by half of it on average.
local HELD_CHECK_MS = 500

-- Series that begin at 0: Prometheus does not see the first event of a series that begins with it.
local FROM_ZERO = {
  "lost_requests_total",
  "unauthorized_requests_total",
  'refused_requests_total{reason="engine"}',
  'refused_requests_total{reason="queue"}',
}

-- Series that rules of the page put into variables, where their features are in use.
local MORE = {
  ["txn.spread"] = "requests_without_key_total",
  ["txn.certificate_end"] = "certificate_expiry_timestamp_seconds",
  ["txn.key_users"] = "key_users",
  ["txn.key_lines_skipped"] = "key_lines_skipped",
}

local own, own_count = {}, 0
-- Names of series, so that not every answer makes one.
local answers = { requests_total = {}, adapter_requests_total = {} }
local UNAUTHORIZED, TOO_MANY = 401, 429

local function variable(thread, index)
  return "proc.series_" .. thread .. "_" .. index
end

-- A value for a label: what Prometheus or its text format could misread becomes `_`.
local function label(value)
  return ((value or ""):gsub("[^%w%._:/@+-]", "_"))
end

-- Add n to a series of this thread. `holder` has set_var: a transaction.
local function count(holder, series, n)
  if own_count >= USER_SERIES and not own[series] then
    series = series:gsub(USER, OTHER)
  end
  local entry = own[series]
  if not entry then
    if own_count >= MAX_SERIES then
      return
    end
    own_count = own_count + 1
    entry = { variable = variable(core.thread, own_count), value = 0 }
    own[series] = entry
  end
  entry.value = entry.value + n
  holder:set_var(entry.variable, series .. " " .. entry.value)
end

-- The series of the answers with a class of status, 2 for 2xx, by a label: the user, or the adapter. Both come from
-- files of the owner.
local function answer_series(metric, name, value, class)
  local of_metric = answers[metric]
  local of_value = of_metric[value]
  if not of_value then
    of_value = {}
    of_metric[value] = of_value
  end
  if not of_value[class] then
    of_value[class] = ('%s{%s="%s",code="%dxx"}'):format(metric, name, label(value), class)
  end
  return of_value[class]
end

-- The series of all threads, added up, as sorted lines. `get` returns a variable's value.
local function counters(get, threads)
  local sums = {}
  for _, series in ipairs(FROM_ZERO) do
    sums[series] = 0
  end
  for thread = 1, threads do
    for index = 1, MAX_SERIES do
      local series, value = (get(variable(thread, index)) or ""):match("^(.*) (%d+)$")
      if not series then
        break
      end
      sums[series] = (sums[series] or 0) + tonumber(value)
    end
  end
  local lines = {}
  for series, value in pairs(sums) do
    lines[#lines + 1] = string.format("%s %d", series, value)
  end
  table.sort(lines)
  return lines
end

-- Requests that run at each engine, are queued and are held. `servers` has address, status and sessions by name.
local function gauges(servers, sessions, queued)
  local running, lines, total = {}, {}, 0
  for name, server in pairs(servers) do
    if name == HOLD then
      total = total + server.sessions -- it leads back to the backend: each is a second session there
    elseif name ~= GATE and (server.sessions > 0 or server.status:find("^UP")) then
      running[server.address] = (running[server.address] or 0) + server.sessions
      total = total + server.sessions
    end
  end
  for address, requests in pairs(running) do
    lines[#lines + 1] = string.format('running_requests{engine="%s"} %d', label(address), requests)
  end
  table.sort(lines)
  lines[#lines + 1] = string.format("queued_requests %d", queued)
  lines[#lines + 1] = string.format("held_requests %d", math.max(0, sessions - queued - total))
  return lines
end

-- The histogram of a role, from its counters: `ROLE LE=COUNT ... count=COUNT sum_ms=COUNT`.
local function histogram(text)
  local role, rest = text:match("^(%S+) (.*)$")
  local lines, values, name = {}, {}, "time_to_first_byte_seconds"
  for key, value in rest:gmatch("(%S+)=(%d+)") do
    values[key] = value
    if tonumber(key) then
      lines[#lines + 1] = string.format('%s_bucket{role="%s",le="%s"} %s', name, role, key, value)
    end
  end
  lines[#lines + 1] = string.format('%s_bucket{role="%s",le="+Inf"} %s', name, role, values.count)
  lines[#lines + 1] = string.format('%s_sum{role="%s"} %.3f', name, role, values.sum_ms / 1000)
  lines[#lines + 1] = string.format('%s_count{role="%s"} %s', name, role, values.count)
  return lines
end

-- The name of a line's metric and its type: one whose name ends in `_total` is a counter.
local function family(line)
  local name = line:match("^[%w_]+")
  local base = name:match("^(.*_seconds)_%l+$")
  if base then
    return base, "histogram"
  end
  return name, name:find("_total$") and "counter" or "gauge"
end

-- The page: all lines of one metric stand together.
local function page(...)
  local text, last = {}, nil
  for _, lines in ipairs({ ... }) do
    for _, line in ipairs(lines) do
      local name, kind = family(line)
      if name ~= last then
        text[#text + 1] = "# TYPE " .. PREFIX .. name .. " " .. kind
        last = name
      end
      text[#text + 1] = PREFIX .. line
    end
  end
  return table.concat(text, "\n") .. "\n"
end

local function live_gauges()
  local backend, servers = core.backends[BACKEND], {}
  for name, server in pairs(backend.servers) do
    local stats = server:get_stats()
    servers[name] = { address = server:get_addr(), status = stats.status, sessions = tonumber(stats.scur) or 0 }
  end
  local stats = backend:get_stats()
  return gauges(servers, tonumber(stats.scur) or 0, tonumber(stats.qcur) or 0)
end

-- How long a page may wait for a request, in seconds: what its query asks for, and at most HELD_SECONDS.
local function held_seconds(query)
  return math.min(tonumber((query or ""):match("^held=(%d+)$")) or 0, HELD_SECONDS)
end

-- Return once a request is at the backend, after `seconds`, or when the process stops: it must not wait for its reader.
local function wait_for_requests(seconds)
  for _ = 1, seconds * 1000 / HELD_CHECK_MS do
    local stats = core.backends[BACKEND]:get_stats()
    if (tonumber(stats.scur) or 0) > 0 or tonumber(core.get_info().Stopping) ~= 0 then
      return
    end
    core.msleep(HELD_CHECK_MS)
  end
end

if core then
  -- Other scripts count with it. A Lua state is of one thread only.
  router_metrics = { count = count, label = label }

  core.register_action("count_answer", { "http-res", "http-after-res" }, function(txn)
    local user, status = txn:get_var("txn.shown_user"), txn.f:status() or 0
    if user then
      count(txn, answer_series("requests_total", "user", user, status // 100), 1)
    end
    local adapter = txn:get_var("txn.adapter")
    if adapter then
      count(txn, answer_series("adapter_requests_total", "adapter", adapter, status // 100), 1)
    end
    -- HAProxy's own 502, not one of an engine, and that of a stream without its first byte.
    if status == 502 and (txn:get_var("txn.died") or txn.f:txn_sess_term_state():find("^S")) then
      count(txn, "lost_requests_total", 1)
    end
    if status == UNAUTHORIZED then
      count(txn, "unauthorized_requests_total", 1)
    end
    if status ~= TOO_MANY then
      return
    end
    local refused = txn:get_var("txn.refused")
    if user and (refused == "rate" or refused == "concurrency") then
      count(txn, ('limited_requests_total{user="%s",reason="%s"}'):format(label(user), refused), 1)
    end
    local reason = refused or (txn.f:srv_id() and "engine" or "queue")
    count(txn, ('refused_requests_total{reason="%s"}'):format(label(reason)), 1)
  end, 0)

  core.register_service("router_metrics", "http", function(applet)
    -- A service reads before it waits, or HAProxy aborts once its reader goes away (docs/explanation/router.md).
    local body = applet:receive(1)
    -- A reader whose request has a body, or that waits often already, is answered at once.
    if body == "" and not applet:get_var("txn.waits_often") then
      wait_for_requests(held_seconds(applet.qs))
    end
    local lines = counters(function(name)
      return applet:get_var(name)
    end, THREADS)
    local more = {}
    for variable, series in pairs(MORE) do
      local value = applet:get_var(variable)
      more[#more + 1] = value and series .. " " .. value
    end
    table.sort(more)
    local index, role = 1, applet:get_var("txn.first_byte_1")
    while role do
      for _, line in ipairs(histogram(role)) do
        more[#more + 1] = line
      end
      index = index + 1
      role = applet:get_var("txn.first_byte_" .. index)
    end
    local text = page(lines, live_gauges(), more)
    applet:set_status(200)
    applet:add_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
    applet:add_header("content-length", #text)
    applet:start_response()
    applet:send(text)
  end)
end

return {
  count = count,
  counters = counters,
  gauges = gauges,
  held_seconds = held_seconds,
  histogram = histogram,
  label = label,
  page = page,
}
