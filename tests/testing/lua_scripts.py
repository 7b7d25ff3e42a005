"""The router's Lua scripts without HAProxy, and the work that one does, as counts."""

from importlib.resources import files
from typing import Any

import lupa.lua54

EVERY = 100
"""Instructions of Lua between two calls of the hook that counts them."""

_COUNTED = rb"""
local script, EVERY = ...
local bytes, instructions = 0, 0
local find, match, gsub = string.find, string.match, string.gsub
-- Where an anchored pattern fails behind its first class, it has read this class and one byte.
local function unmatched(text, pattern, from)
  local class, literal = match(pattern, "^%^(%b[][*+])(.)")
  local read = class and #(match(text, "^" .. class, from) or "")
  return read and text:sub(from + read, from + read) ~= literal and read + 1 or #text - from + 1
end
function string.find(text, pattern, from, plain)
  local found = table.pack(find(text, pattern, from, plain))
  if not plain then
    from = from or 1
    bytes = bytes + (found[2] and found[2] - from + 1 or unmatched(text, pattern, from))
  end
  return table.unpack(found)
end
function string.match(text, pattern, from)
  bytes = bytes + #text - (from or 1) + 1
  return match(text, pattern, from)
end
function string.gsub(text, ...)
  bytes = bytes + #text
  return gsub(text, ...)
end
local loaded = assert(load(script))()
return loaded, function(called, ...)
  bytes, instructions = 0, 0
  debug.sethook(function() instructions = instructions + EVERY end, "", EVERY)
  called(...)
  debug.sethook()
  return instructions, bytes
end
"""


def source(name: str) -> bytes:
    """The text of a script of the router."""
    return files("inference_operator.router").joinpath(name).read_bytes()


def script(name: str, *arguments: bytes) -> Any:  # noqa: ANN401 - each script returns something else
    """What a script of the router returns when it is loaded with these arguments; texts are bytes."""
    return lupa.lua54.LuaRuntime(encoding=None).execute(source(name), *arguments)


def counted_script(name: str) -> tuple[Any, Any]:
    """What a script returns, and a function that calls one of its functions and returns what that took.

    It is how many instructions of Lua, and how many bytes were matched with patterns. A search for a plain text is not
    counted: it takes less than a thousandth of the time.
    """
    loaded, count = lupa.lua54.LuaRuntime(encoding=None, unpack_returned_tuples=True).execute(
        _COUNTED, source(name), EVERY
    )
    return loaded, count
