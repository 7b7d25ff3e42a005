-- Affinity of a request: the texts at its start that later requests are likely to repeat.
--
-- Sets two variables from the body of a request to the OpenAI API:
-- * txn.system: the system prompt, empty without one;
-- * txn.conversation: the first user message, or `prompt`, or `input`.
-- A request whose body is not such an object gets neither. Both texts start with the adapter if the request names one.
--
-- Rules:
-- 1. Walk the top-level object of the JSON text, key by key. Skip each value that is not needed.
-- 2. In `messages` (or an `input` of messages) take the first text of role system or developer, and the first of role
--    user. The later messages grow with each turn, so they are not part of the key.
-- 3. Take at most LENGTH bytes of each text, as they are in the body: escape sequences are not decoded.
-- 4. Stop at the end of the buffer, and after MAX_STEPS steps. Keep what was found before.
--
-- The text is never decoded, compared or stored. A wrong key costs a cache hit, nothing else.

local LENGTH = 1024
local MAX_STEPS = 300000

local Walker = {}
Walker.__index = Walker

local function walker(body)
  return setmetatable({ body = body, at = 1, steps = 0 }, Walker)
end

-- Position of the next byte of a set, or nil at the end of the body or of the budget.
function Walker:find(set, from)
  self.steps = self.steps + 1
  if self.steps > MAX_STEPS then
    return nil
  end
  return self.body:find(set, from)
end

-- The next byte that is not white space, or nil.
function Walker:next_byte()
  local at = self:find("[^ \t\r\n]", self.at)
  if not at then
    return nil
  end
  self.at = at
  return self.body:byte(at)
end

-- Whether the byte at a position is escaped: an odd number of backslashes is before it.
function Walker:escaped(at, from)
  local before = at - 1
  while before >= from and self.body:byte(before) == 92 do
    before = before - 1
  end
  return (at - before) % 2 == 0
end

-- Skip a string and return its bytes without the quotes; also where the body ends inside it.
function Walker:string()
  local from, at = self.at + 1, self.at
  repeat
    at = self:find('"', at + 1)
  until not at or not self:escaped(at, from)
  self.at = at and at + 1 or #self.body + 1
  return self.body:sub(from, math.min(self.at - (at and 2 or 1), from + LENGTH - 1))
end

-- Skip any value.
function Walker:skip()
  local depth, first = 0, self:next_byte()
  while first do
    if first == 34 then
      self:string()
    elseif first == 123 or first == 91 then
      depth, self.at = depth + 1, self.at + 1
    elseif first == 125 or first == 93 then
      depth, self.at = depth - 1, self.at + 1
    else
      self.at = self:find('["%[%]{},]', self.at + 1) or #self.body + 1
    end
    if depth <= 0 then
      return
    end
    local at = self:find('["%[%]{}]', self.at)
    self.at = at or #self.body + 1
    first = at and self.body:byte(at)
  end
end

-- The first byte of the next member or item, behind a comma if there is one; nil at the end.
function Walker:next_item()
  local byte = self:next_byte()
  if byte == 44 then
    self.at = self.at + 1
    byte = self:next_byte()
  end
  return byte
end

-- Call visit(key) at the value of each member of the object that starts here. visit must move past the value.
function Walker:object(visit)
  self.at = self.at + 1
  while true do
    local byte = self:next_item()
    if byte ~= 34 then
      self.at = self.at + 1
      return
    end
    local key = self:string()
    if self:next_byte() ~= 58 then
      return
    end
    self.at = self.at + 1
    if not self:next_byte() then
      return
    end
    visit(key)
  end
end

-- Call visit() at each item of the array that starts here, until it returns true. visit must move past the item.
function Walker:array(visit)
  self.at = self.at + 1
  while true do
    local byte = self:next_item()
    if not byte or byte == 93 then
      self.at = self.at + 1
      return
    end
    local before = self.at
    if visit() then
      return true
    end
    if self.at <= before then
      return
    end
  end
end

-- The text of a content here: a string, the first text of a list of parts, or the first bytes of anything else.
function Walker:text()
  local byte, from = self:next_byte(), self.at
  if byte == 34 then
    return self:string()
  end
  local found
  if byte == 91 then
    self:array(function()
      if self:next_byte() == 123 then
        self:object(function(key)
          if key == "text" and not found and self:next_byte() == 34 then
            found = self:string()
          else
            self:skip()
          end
        end)
      else
        self:skip()
      end
    end)
  else
    self:skip()
  end
  return found or self.body:sub(from, math.min(self.at, from + LENGTH) - 1)
end

-- The first text of the system and of the user in a list of messages.
function Walker:messages(found)
  return self:array(function()
    if self:next_byte() ~= 123 then
      self:skip()
      return
    end
    local role, text
    self:object(function(key)
      if key == "role" and self:next_byte() == 34 then
        role = self:string()
      elseif key == "content" then
        text = self:text()
      else
        self:skip()
      end
    end)
    if role == "user" then
      found.conversation = text
    elseif role == "system" or role == "developer" then
      found.system = found.system or text
    end
    return found.conversation ~= nil
  end)
end

-- `input`: messages of the Responses API, or the text, texts or tokens of an embedding.
function Walker:input(found)
  local from = self.at
  if self:next_byte() == 91 then
    self:messages(found)
    if found.conversation or found.system then
      return
    end
    self.at = from
  end
  found.conversation = self:text()
end

-- The system text, the conversation, and the model that a body names; each nil where the body has none.
local function texts(body)
  local walk, found = walker(body), {}
  if walk:next_byte() ~= 123 then
    return found
  end
  walk:object(function(key)
    if key == "messages" and walk:next_byte() == 91 then
      local from = walk.at
      if walk:messages(found) then
        walk.at = from
        walk:skip()
      end
    elseif key == "input" then
      local from = walk.at
      walk:input(found)
      walk.at = from
      walk:skip()
    elseif key == "prompt" then
      found.conversation = walk:text()
    elseif key == "system" or key == "instructions" then
      found.system = walk:text()
    elseif key == "model" and walk:next_byte() == 34 then
      found.model = walk:string()
    else
      walk:skip()
    end
  end)
  return found
end

-- The system text and the conversation of a body, with the adapter in front: a model that is not one of the names of
-- the base model, which are separated by commas. Both are nil for a body without a conversation.
local function affinity(body, names)
  local found = texts(body)
  if not found.conversation or found.conversation == "" then
    return nil, nil
  end
  local adapter = ""
  if found.model and not ("," .. names .. ","):find("," .. found.model .. ",", 1, true) then
    adapter = found.model .. "\n"
  end
  return adapter .. (found.system or ""), adapter .. found.conversation
end

if core then
  core.register_action("affinity", { "http-req" }, function(txn, names)
    local system, conversation = affinity(txn.f:req_body() or "", names or "")
    if conversation then
      txn:set_var("txn.system", system)
      txn:set_var("txn.conversation", conversation)
    end
  end, 1)
end

return affinity
