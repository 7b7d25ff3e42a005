-- Loads a renewed certificate. The kubelet replaces the files of a mounted Secret; HAProxy reads them only at its start.
-- Arguments: the file of the certificate chain, as `crt` of a bind line names it, the file of its key, and the
-- milliseconds between two looks.
-- No connection ends: those that exist keep their session, and new handshakes get the new certificate.

local certificate, key, interval_ms = ...

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
        core.log(core.notice, "the renewed TLS certificate is in use")
      else
        refused = chain .. secret
        core.log(core.err, "the renewed TLS certificate is not valid, the former one stays: " .. tostring(problem))
      end
    end
  end
end

core.register_task(watch)
