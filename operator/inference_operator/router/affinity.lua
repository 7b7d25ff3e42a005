-- Affinity of a request: the texts at its start that later requests are likely to repeat.
--
--     lua-load-per-thread affinity.lua NAMES_OF_THE_BASE_MODEL WINDOW
--
-- Finds two texts in the body of a request to the OpenAI API:
-- * the system prompt, empty without one;
-- * the conversation: the first user message, or `prompt`, or `input`.
-- A body that is not such an object has neither. Both texts start with the adapter if the request names one.
--
-- The converter `lua.texts` gets the first WINDOW bytes of a body, and returns the length of the first text in
-- four digits, and both texts, unless what stands behind may change them. Then the action `lua.affinity` reads the whole
-- body, and sets `txn.texts` to this. A converter costs less than an action, for which HAProxy makes a dozen tables, but
-- it cannot be interrupted.
--
-- Rules:
-- 1. Walk the top-level object of the JSON text, key by key. Skip each value that is not needed.
-- 2. In `messages` (or an `input` of messages) take the first text of role system or developer, and the first of role
--    user. The later messages grow with each turn, so they are not part of the key.
-- 3. Take at most LENGTH bytes of each text, as they are in the body: escape sequences are not decoded.
-- 4. Stop at the end of the buffer, once all is found, and after STEPS steps. Keep what was found before.
--
-- The text is never decoded, compared or stored. A wrong key costs a cache hit, nothing else.
--
-- Anybody may send a body that costs most, so what is skipped is skipped by functions of Lua's library, which take
-- nanoseconds for a byte: a string by its next quote, an array or object block by block, without its strings, by
-- `%b`. They count as steps too. `%b` is only used at the start of a text: a search for it would take the square.

local LENGTH = 1024
local STEPS = 4600 -- of about half a microsecond each
local STEP_BYTES = 64 -- that a function of the library reads in the time of a step
local FIRST_BLOCK, BLOCK = 256, 32768 -- bytes
local MAX_DEPTH = 512 -- engines accept fewer: Python's json nests about 1,000 deep, pydantic 200
local QUOTE, BACKSLASH, COMMA = 34, 92, 44
local ARRAY, ARRAY_END, OBJECT, OBJECT_END = 91, 93, 123, 125
local MEMBER = '^[ \t\r\n,]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*' -- up to its value
-- How most bodies begin, and how their second message does, each up to its text.
local FIRST = '^{"model": ?"([%w/._:-]+)", ?"messages": ?%[{"role": ?"(%l+)", ?"content": ?()"'
local SECOND = '^}, ?{"role": ?"user", ?"content": ?()"'
local STRING = "\1" -- a whole string in a text without strings; JSON has no such byte
local BRACKETS = {
  [ARRAY] = { open = "[", all = "^%b[]", ends = ("]"):rep(MAX_DEPTH) },
  [OBJECT] = { open = "{", all = "^%b{}", ends = ("}"):rep(MAX_DEPTH) },
}

-- A block that starts outside strings: without escapes, with STRING for each string, and the length of what is whole.
-- The block may end in a string.
local function structure(block)
  local plain = block
  if block:find('\\"', 1, true) then
    plain = block:gsub("\\.", "__")
  end
  local text = plain:gsub('%b""', STRING)
  local cut = text:find('"', 1, true)
  if not cut then
    return plain, text, #block
  end
  return plain, text:sub(1, cut - 1), #block - (#text - cut + 1)
end

-- The length in a block of the first bytes of its text, in which a string is one byte.
local function width(plain, text, last)
  local _, strings = text:sub(1, last):gsub(STRING, "")
  local rest = plain:gsub('%b""', "", strings)
  return #plain - #rest + last - strings
end

local Walker = {}
Walker.__index = Walker

local function walker(body)
  return setmetatable({ body = body, at = 1, left = STEPS, found = {} }, Walker)
end

-- Take a step that reads some bytes; false once all steps are taken. Then nothing more is found.
function Walker:step(bytes)
  self.left = self.left - 1 - bytes // STEP_BYTES
  return self.left >= 0
end

-- Go behind the bytes here that a pattern matches from its start.
function Walker:pass(pattern)
  local _, last = self.body:find(pattern, self.at)
  self:step(last - self.at)
  self.at = last + 1
end

-- The next byte that is not white space, or nil at the end of the body or of the steps.
function Walker:next_byte()
  local byte = self.body:byte(self.at)
  if byte and byte <= 32 then
    self:pass("^[ \t\r\n]*")
    byte = self.body:byte(self.at)
  end
  return self:step(0) and byte or nil
end

-- The next blocks, each with its structure, until `visit` returns where it ends; from there, or at the end.
function Walker:blocks(visit)
  local size = FIRST_BLOCK
  while self.at <= #self.body do
    local block = self.body:sub(self.at, self.at + size - 1)
    if not self:step(#block) then
      break
    end
    local plain, text, whole = structure(block)
    local last = visit(text)
    if last then
      self.at = self.at + width(plain, text, last)
      return
    end
    if whole == #block then
      self.at = self.at + whole
    else
      -- No quote ends the string in this block. What follows its last byte may be escaped if that is a backslash.
      self:close_string(block:byte(-1) == BACKSLASH and self.at + whole + 1 or self.at + #block)
    end
    size = math.min(2 * size, BLOCK)
  end
  self.at = #self.body + 1
end

-- The first quote from a position in a string that is not escaped, or nil.
function Walker:quote(at)
  local size = FIRST_BLOCK
  while self:step(size) do
    local block = self.body:sub(at, at + size - 1)
    local plain = block:gsub("\\.", "__")
    local found = plain:find('"', 1, true)
    if found or #block < size then
      return found and at + found - 1
    end
    -- An escape may begin with the last byte.
    at = at + size - (plain:byte(-1) == BACKSLASH and 1 or 0)
    size = math.min(2 * size, BLOCK)
  end
  return nil
end

-- Go behind the string that goes on at a position. Returns where its bytes end; also where the body ends inside it.
function Walker:close_string(from)
  local at = self:step(0) and self.body:find('"', from, true)
  if at and self.body:byte(at - 1) == BACKSLASH then
    at = self:quote(from)
  end
  self.at = at and at + 1 or #self.body + 1
  return at and at - 1 or #self.body
end

-- Skip a string and return its bytes without the quotes.
function Walker:string()
  local from = self.at + 1
  return self:taken(from, self:close_string(from))
end

-- At most LENGTH of the bytes from a position to another. A text is cut if more of it may be behind the body.
function Walker:taken(from, last)
  self.is_cut = self.is_cut or self.at > #self.body and last - from + 1 < LENGTH
  return self.body:sub(from, math.min(last, from + LENGTH - 1))
end

-- Skip the rest of an array or object.
function Walker:close(kind)
  local bracket, depth = BRACKETS[kind], 1
  self:blocks(function(text)
    -- Brackets before it and behind it make every text balanced: where the match ends tells the depth.
    local _, last = (bracket.open:rep(depth) .. text .. bracket.ends):find(bracket.all)
    if not last then
      self.left = 0
      return #text
    end
    local behind = last - depth - #text
    if behind <= 0 then
      return last - depth
    end
    depth = behind
  end)
end

-- Skip any value.
function Walker:skip()
  local byte = self:next_byte()
  if byte == QUOTE then
    self:string()
  elseif byte then
    self.at = self.at + 1
    if BRACKETS[byte] then
      self:close(byte)
    else
      self:pass('^[^"%[%]{},]*')
    end
  end
end

-- The first byte of the next member or item, behind a comma if there is one; nil at the end.
function Walker:next_item()
  local byte = self:next_byte()
  if byte == COMMA then
    self.at = self.at + 1
    byte = self:next_byte()
  end
  return byte
end

-- Call visit(key) at the value of each member of the object that starts here, until it returns true. visit must move
-- past the value. A key with an escape ends the search: no client writes one.
function Walker:object(visit)
  self.at = self.at + 1
  while self.body:byte(self.at) ~= OBJECT_END do
    local _, last, key = self.body:find(MEMBER, self.at)
    if not last then
      if self:next_item() ~= OBJECT_END then
        self.left = 0
      end
      break
    end
    local bytes = last - self.at
    self.at = last + 1
    if not self:step(bytes) or visit(key) then
      return
    end
  end
  self.at = self.at + 1
end

-- Call visit() at each object in the array that starts here, until it returns true, and move past the array unless all is
-- found. visit must move past the object.
function Walker:objects(visit)
  self.at = self.at + 1
  while true do
    local byte = self:next_item()
    if not byte or byte == ARRAY_END then
      self.at = self.at + 1
      return
    elseif byte == OBJECT then
      if visit() then
        if not (self.found.model and self.found.system and self.found.conversation) then
          self:close(ARRAY)
        end
        return
      end
    elseif byte == ARRAY or byte == OBJECT_END then
      self:skip()
    else
      self:blocks(function(text)
        local _, last = text:find("^[^%[%]{}]*")
        return last < #text and last or nil
      end)
    end
  end
end

-- The text of a content here: a string, the first text of a list of parts, or the first bytes of anything else.
function Walker:text()
  local byte, from = self:next_byte(), self.at
  if byte == QUOTE then
    return self:string()
  end
  local found
  if byte == ARRAY then
    self:objects(function()
      self:object(function(key)
        if key == "text" and not found and self:next_byte() == QUOTE then
          found = self:string()
        else
          self:skip()
        end
      end)
      return found ~= nil
    end)
  else
    self:skip()
  end
  return found or self:bytes(from)
end

-- The first bytes of the value that started at a position.
function Walker:bytes(from)
  return self:taken(from, self.at - 1)
end

-- The first text of the system and of the user in a list of messages, and `part`, the first text beside them.
function Walker:messages(found)
  self:objects(function()
    local role, text
    self:object(function(key)
      if key == "role" and self:next_byte() == QUOTE then
        role = self:string()
      elseif key == "content" then
        text = self:text()
      elseif key == "text" and not found.part and self:next_byte() == QUOTE then
        found.part = self:string()
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
  if self:next_byte() ~= ARRAY then
    found.conversation = self:text()
    return
  end
  local from = self.at
  self:messages(found)
  if not (found.conversation or found.system) then
    found.conversation = found.part or self:bytes(from)
  end
end

-- Whether a body begins with a model, a system text and one of the user: a fifth of the time of the walk, which finds the
-- same. Else go back to its start.
function Walker:usual()
  local model, role, at = self.body:match(FIRST)
  if (role == "system" or role == "developer") and #model <= LENGTH then
    self.at = at
    local system = self:string()
    self.at = self.body:match(SECOND, self.at)
    if self.at then
      self.found.model, self.found.system, self.found.conversation = model, system, self:string()
      return true
    end
  end
  self.at, self.is_cut = 1, nil
  return false
end

-- The system text, the conversation, and the model that a body names; each nil where the body has none. And whether what
-- stands behind these bytes cannot change them. `usual`: whether there are few, and most likely begin as usual.
local function texts(body, usual)
  local walk = walker(body)
  local found = walk.found
  if usual and walk:usual() then
    return found, not walk.is_cut
  end
  if walk:next_byte() ~= OBJECT then
    return found, false
  end
  local chat = false
  walk:object(function(key)
    if key == "messages" and walk:next_byte() == ARRAY then
      walk:messages(found)
      chat = true
    elseif key == "input" then
      walk:input(found)
    elseif key == "prompt" then
      found.conversation = walk:text()
    elseif key == "system" or key == "instructions" then
      found.system = walk:text()
      chat = true
    elseif key == "model" and walk:next_byte() == QUOTE then
      found.model = walk:string()
    else
      walk:skip()
    end
    -- Instructions beside an input replace its system text.
    return chat and found.model and found.system and found.conversation
  end)
  return found, chat and not walk.is_cut and found.model and found.system and found.conversation
end

-- The system text and the conversation of a body, with the adapter in front: a model that is not one of the names of
-- the base model, which are separated by commas. Both are nil for a body without a conversation, and for the first `window`
-- bytes of one that is longer, if what stands behind may change them.
local function affinity(body, names, window)
  local found, is_final = texts(body, window)
  if not found.conversation or found.conversation == "" or window and #body >= window and not is_final then
    return nil, nil
  end
  local adapter = ""
  if found.model and not ("," .. names .. ","):find("," .. found.model .. ",", 1, true) then
    adapter = found.model .. "\n"
  end
  return adapter .. (found.system or ""), adapter .. found.conversation
end

-- Without HAProxy, for tests.
if not core then
  return affinity
end

local NAMES, WINDOW = ...
WINDOW = tonumber(WINDOW)

local function both(system, conversation)
  return ("%04d"):format(#system) .. system .. conversation
end

core.register_converters("texts", function(body)
  local system, conversation = affinity(body, NAMES, WINDOW)
  if conversation then
    return both(system, conversation)
  end
end)

core.register_action("affinity", { "http-req" }, function(txn)
  local system, conversation = affinity(txn:get_var("txn.start") or txn.f:req_body() or "", NAMES)
  if conversation then
    txn:set_var("txn.texts", both(system, conversation))
  end
end, 0)
