-- Loads a renewed certificate. The kubelet replaces the files of a mounted Secret; HAProxy reads them only at its start.
-- Arguments: the file of the certificate chain, as `crt` of a bind line names it, the file of its key, and the
-- milliseconds between two looks.
-- No connection ends: those that exist keep their session, and new handshakes get the new certificate.
--
-- It also reads when the certificate ends, for the page of the metrics: the action certificate_end sets txn.certificate_end.

local certificate, key, interval_ms = ...
local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local VERSION = 0xA0

local function bytes(base64)
  local found, bits, value = {}, 0, 0
  for digit in base64:gmatch("[%w+/]") do
    value = (value << 6 | DIGITS:find(digit, 1, true) - 1) & 0xFFFF
    bits = bits + 6
    if bits >= 8 then
      bits = bits - 8
      found[#found + 1] = string.char(value >> bits & 0xFF)
    end
  end
  return table.concat(found)
end

-- An element of DER (X.690, 8.1): its tag, where its content begins, and where the next element begins.
local function element(der, at)
  local tag, length = der:byte(at, at + 1)
  local first = at + 2
  if length >= 0x80 then
    local digits = length & 0x7F
    length, first = string.unpack(">I" .. digits, der, first)
  end
  return tag, first, first + length
end

-- UTCTime or GeneralizedTime (RFC 5280, 4.1.2.5) as seconds since 1970.
local function seconds(text)
  if #text == 13 then
    text = (text < "50" and "20" or "19") .. text
  end
  local fields = { text:match("^(%d%d%d%d)(%d%d)(%d%d)(%d%d)(%d%d)(%d%d)Z$") }
  for index, field in ipairs(fields) do
    fields[index] = math.tointeger(tonumber(field))
  end
  local year, month, day, hour, minute, second = table.unpack(fields)
  if month <= 2 then
    year, month = year - 1, month + 12
  end
  local days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month - 457) // 5 + day - 719469
  return ((days * 24 + hour) * 60 + minute) * 60 + second
end

-- The end of a certificate (RFC 5280, 4.1).
local function end_of(der)
  local _, at = element(der, 1)
  _, at = element(der, at)
  local tag, _, behind = element(der, at)
  if tag == VERSION then
    at = behind
  end
  for _ = 1, 3 do -- serial number, signature, issuer
    _, _, at = element(der, at)
  end
  _, at = element(der, at) -- validity
  _, _, at = element(der, at) -- its begin
  local _, first, last = element(der, at)
  return seconds(der:sub(first, last - 1))
end

-- When the first certificate of a chain ends, as seconds since 1970; nil if none can be read.
local function first_end(chain)
  local first = nil
  for block in (chain or ""):gmatch("%-%-%-%-%-BEGIN CERTIFICATE%-%-%-%-%-(.-)%-%-%-%-%-END CERTIFICATE%-%-%-%-%-") do
    local ok, found = pcall(end_of, bytes(block))
    if ok and (not first or found < first) then
      first = found
    end
  end
  return first
end

-- Without HAProxy, for tests.
if not core then
  return first_end
end

local ends = nil

local function content(path)
  local file = io.open(path, "r")
  if not file then
    return nil
  end
  local text = file:read("a")
  file:close()
  return text
end

local function watch()
  local loaded = (content(certificate) or "") .. (content(key) or "")
  ends = first_end(content(certificate))
  local refused = nil
  while true do
    core.msleep(tonumber(interval_ms))
    local chain, secret = content(certificate), content(key)
    -- Half of a Secret: the kubelet is just replacing it, or it is incomplete. The next round reads it again.
    if chain and secret and chain .. secret ~= loaded and chain .. secret ~= refused then
      -- The empty name is that of a certificate and its key in one text (HAProxy 3.0, src/ssl_ckch.c, cert_exts).
      local ok, problem = pcall(CertCache.set, { filename = certificate, [""] = chain .. "\n" .. secret })
      if ok then
        loaded, refused = chain .. secret, nil
        ends = first_end(chain)
        core.log(core.notice, "the renewed TLS certificate is in use")
      else
        refused = chain .. secret
        core.log(core.err, "the renewed TLS certificate is not valid, the former one stays: " .. tostring(problem))
      end
    end
  end
end

core.register_action("certificate_end", { "http-req" }, function(txn)
  if ends then
    txn:set_var("txn.certificate_end", ends)
  end
end, 0)

core.register_task(watch)
