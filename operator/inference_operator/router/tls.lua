-- Loads a renewed certificate. The kubelet replaces the files of a mounted Secret; HAProxy reads them only at its start.
-- Arguments: the file of the certificate chain, as `crt` of a bind line names it, the file of its key, and the
-- milliseconds between two looks.
-- No connection ends: those that exist keep their session, and new handshakes get the new certificate.
--
-- A certificate is loaded only with its own key: CertCache.set takes any two (HAProxy 3.2, src/hlua.c, hlua_ckch_set), and
-- each handshake then fails with the alert handshake_failure.
-- 1. The certificate is read again after the key. If it has changed, the kubelet has replaced the files in between, and
--    the next round reads both.
-- 2. The public key of the certificate must stand in the file of the key. RSA keys always hold it (RFC 8017, A.1.2), keys
--    on elliptic curves may (RFC 5915, RFC 5958). A key that is too short to hold it is not compared.
--
-- It also reads when the certificate ends, for the page of the metrics: the action certificate_end sets txn.certificate_end.

local certificate, key, interval_ms = ...
local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local VERSION, SEQUENCE = 0xA0, 0x30
local PRIVATE_BYTES = 32 -- the least length of a private key on an elliptic curve

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

-- Where the validity and the public key of a certificate begin (RFC 5280, 4.1).
local function validity_and_key(der)
  local _, at = element(der, 1)
  _, at = element(der, at)
  local tag, _, behind = element(der, at)
  if tag == VERSION then
    at = behind
  end
  for _ = 1, 3 do -- serial number, signature, issuer
    _, _, at = element(der, at)
  end
  local validity = at
  for _ = 1, 2 do -- validity, subject
    _, _, at = element(der, at)
  end
  return validity, at
end

local function end_of(der)
  local _, at = element(der, (validity_and_key(der)))
  _, _, at = element(der, at) -- the begin of the validity
  local _, first, last = element(der, at)
  return seconds(der:sub(first, last - 1))
end

-- The modulus of an RSA key, the point of a key on an elliptic curve.
local function public_value(der)
  local _, at = element(der, select(2, validity_and_key(der)))
  _, _, at = element(der, at) -- the algorithm
  local _, first, last = element(der, at)
  first = first + 1 -- the number of unused bits
  if der:byte(first) == SEQUENCE then
    _, first = element(der, first)
    _, first, last = element(der, first)
  end
  return der:sub(first, last - 1)
end

local function belongs(certificate_der, key_der)
  local value = public_value(certificate_der)
  return #key_der < #value + PRIVATE_BYTES or key_der:find(value, 1, true) ~= nil
end

local function first_block(text, label)
  return text:match(label .. "%-%-%-%-%-(.-)%-%-%-%-%-END")
end

-- Whether a key is that of the first certificate of a chain. What is not understood is left to HAProxy.
local function is_pair(chain, secret)
  local certificate_block, key_block = first_block(chain, "BEGIN CERTIFICATE"), first_block(secret, "PRIVATE KEY")
  if not certificate_block or not key_block then
    return true
  end
  local ok, found = pcall(belongs, bytes(certificate_block), bytes(key_block))
  return not ok or found
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
  return first_end, is_pair
end

local ends = nil

local function content(path)
  local file <close> = io.open(path, "r")
  return file and file:read("a")
end

local function load_pair(chain, secret)
  if not is_pair(chain, secret) then
    error("the key is not that of the certificate", 0)
  end
  -- The empty name is that of a certificate and its key in one text (HAProxy 3.0, src/ssl_ckch.c, cert_exts).
  CertCache.set({ filename = certificate, [""] = chain .. "\n" .. secret })
end

local function watch()
  local loaded = (content(certificate) or "") .. (content(key) or "")
  ends = first_end(content(certificate))
  local refused = nil
  while true do
    core.msleep(tonumber(interval_ms))
    local chain, secret = content(certificate), content(key)
    -- Half of a Secret: the kubelet is just replacing it, or it is incomplete. The next round reads it again.
    local whole = chain and secret and chain == content(certificate)
    if whole and chain .. secret ~= loaded and chain .. secret ~= refused then
      local ok, problem = pcall(load_pair, chain, secret)
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
