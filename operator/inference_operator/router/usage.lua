-- Tokens of an answer, where it tells its usage: `filter lua.usage`. Loaded after metrics.lua, which has the counters.
--
-- Sets txn.prompt_tokens, txn.completion_tokens, txn.cached_tokens and txn.model for the access log, and counts the
-- tokens of each user. Bodies pass unchanged and at once.
--
-- Rules:
-- 1. Look at answers to POST below /v1/ that are JSON or a stream of events, and are not compressed.
-- 2. Keep the last KEEP bytes of a JSON answer, and of a stream the last event with usage and as much of what follows it.
--    Read the last `"usage": {...}` in them when the answer has ended. A text cannot forge it: quotes in a text are
--    escaped. A chunk of whole events without usage is searched for one plain text, and not kept.
-- 3. A stream without usage costs nothing after its first chunk. Chat completions and completions end with usage if the
--    request has `stream_options.include_usage`, or if the engine puts usage into every chunk. Streams of responses and
--    messages always do.
--
-- Sources: vLLM 0.32.0, entrypoints/serve/utils/api_utils.py (should_include_usage), openai/responses/protocol.py
-- (ResponsesResponse), anthropic/serving.py (_build_anthropic_usage).

local KEEP = 4096
local ASKED, NAME, OBJECT = '"include_usage"', '"usage"', '"usage"%s*:%s*{'
local NEWLINE = 10 -- the last byte of an event
local MOST_DIGITS = 12
local MODEL_BYTES = 128

-- The number of a member, or nil. The object is flat enough for a search: names of members are unique in it.
local function number(object, name)
  local digits = object:match('"' .. name .. '"%s*:%s*(%d+)')
  return digits and #digits <= MOST_DIGITS and tonumber(digits) or nil
end

-- Tokens of the prompt, of the completion, and those of the prompt that were cached; nil for each that is unknown.
local function usage(tail)
  local start, from = nil, 1
  while true do
    local found, last = tail:find(OBJECT, from)
    if not found then
      break
    end
    start, from = last, last + 1
  end
  local object = start and tail:match("^%b{}", start)
  if not object then
    return nil, nil, nil
  end
  local read = number(object, "cache_read_input_tokens")
  local prompt = number(object, "prompt_tokens")
  local input = number(object, "input_tokens")
  if not prompt and input then
    -- The messages API does not count cached tokens as input.
    prompt = input + (read or 0) + (number(object, "cache_creation_input_tokens") or 0)
  end
  local completion = number(object, "completion_tokens") or number(object, "output_tokens")
  return prompt, completion, number(object, "cached_tokens") or read
end

-- The last bytes of a text and what follows it.
local function tail(before, data)
  return #data >= KEEP and data:sub(-KEEP) or (before .. data):sub(-KEEP)
end

-- What is kept of a stream, and the event that the next chunk goes on with, if one does.
local function kept(before, open, data)
  if open then
    data = tail(open, data)
  end
  local found = data:find(NAME, 1, true)
  if found and data:find(OBJECT, found) then
    before = tail("", data)
  end
  return before, data:byte(-1) ~= NEWLINE and data or nil
end

-- The model that an answer names in its first bytes.
local function model(data)
  return data:sub(1, KEEP):match('"model"%s*:%s*"([^"]*)"')
end

-- Whether a request asks for usage, as far as it has come, and the bytes of it that the next chunk may go on from.
local function asks(before, data)
  local text = before .. data
  return text:find(ASKED, 1, true) ~= nil, text:sub(1 - #ASKED)
end

local function first(headers, name)
  local values = headers[name]
  return values and values[0] or ""
end

local Usage = {}
Usage.__index = Usage

function Usage.new()
  return setmetatable({ api = false, asked = false, stream = false, answers = false, first = true, before = "", tail = "" }, Usage)
end

function Usage:request(txn, message)
  local path = txn.f:path() or ""
  self.api = txn.f:method() == "POST" and path:find("^/v1/") ~= nil
  self.asked = path == "/v1/responses" or path == "/v1/messages"
  if self.api and not self.asked then
    filter.register_data_filter(self, message.channel)
  end
end

function Usage:response(txn, message)
  local headers = message:get_headers()
  local kind = first(headers, "content-type")
  self.stream = kind:find("^text/event%-stream") ~= nil
  local readable = self.stream or kind:find("^application/json") ~= nil
  if self.api and txn.f:status() == 200 and readable and not headers["content-encoding"] then
    self.answers = true
    filter.register_data_filter(self, message.channel)
  end
end

function Usage:http_headers(txn, message)
  if message.channel:is_resp() then
    self:response(txn, message)
  else
    self:request(txn, message)
  end
  return filter.CONTINUE
end

function Usage:http_payload(txn, message)
  local data = message:body()
  if not data or data == "" then
    return
  end
  if not self.answers then
    if not self.asked then
      self.asked, self.before = asks(self.before, data)
    end
    return
  end
  if self.first then
    self.first = false
    local name = model(data)
    if name then
      txn:set_var("txn.model", router_metrics.label(name):sub(1, MODEL_BYTES))
    end
    if self.stream and not self.asked and not data:find(NAME, 1, true) then
      filter.unregister_data_filter(self, message.channel)
      self:count(txn)
      return
    end
  end
  if self.stream then
    self.tail, self.open = kept(self.tail, self.open, data)
  else
    self.tail = tail(self.tail, data)
  end
end

-- Called at the end of a message with a data filter only.
function Usage:http_end(txn, message)
  if message.channel:is_resp() then
    self:count(txn)
  end
end

function Usage:count(txn)
  local prompt, completion, cached = usage(self.tail)
  local user = router_metrics.label(txn:get_var("txn.shown_user"))
  for kind, tokens in pairs({ prompt = prompt, completion = completion, cached = cached }) do
    txn:set_var("txn." .. kind .. "_tokens", tokens)
    router_metrics.count(txn, ('tokens_total{user="%s",type="%s"}'):format(user, kind), tokens)
  end
  if not prompt then
    router_metrics.count(txn, ('answers_without_usage_total{user="%s"}'):format(user), 1)
  end
end

if core then
  Usage.id = "usage"
  Usage.flags = filter.FLT_CFG_FL_HTX
  core.register_filter("usage", Usage, function(configured)
    return configured
  end)
end

return { usage = usage, tail = tail, kept = kept, model = model, asks = asks }
