-- Holds a request while no engine is up: `http-request lua.hold SECONDS`.
--
-- It returns once an engine is up, or the server `hold` is in maintenance, as at the end of a router: then HAProxy finds
-- no server, and answers 503. After SECONDS it sets the variable `txn.waited`.

local BACKEND = "engines"
-- It delays a request that waited by half of it on average. 256 requests cost a hundredth of a core.
local POLL_MS = 200

local function seconds_now()
  local now = core.now()
  return now.sec + now.usec / 1e6
end

core.register_action("hold", { "http-req" }, function(txn, seconds)
  local ends = seconds_now() + tonumber(seconds)
  -- Negative while a server without maxconn is the one in use, and only `hold` has none.
  while txn.f:be_conn_free(BACKEND) < 0 do
    if seconds_now() >= ends then
      txn:set_var("txn.waited", true)
      return
    end
    core.msleep(POLL_MS)
  end
end, 1)
