-- Takes routing keys out of the headers whose lists can hold one; other entries stay as
-- they are. Some libraries decode an entry's name before they pass it on, so a name is
-- looked at decoded. Whatever goes wrong takes the whole list out, for it may hold a key.
local member = "sd-routing-key"
-- Everybody must pass on 8,192 bytes; a list that may hold a key is looked at up to these.
local longest = 65536
-- Names that are encoded more often than this over are no names.
local encodings = 8

local function character(hex)
  return string.char(tonumber(hex, 16))
end

local function holds_key(name)
  for _ = 1, encodings do
    if name:find(member, 1, true) then
      return true
    end
    local plain = name:gsub("%%(%x%x)", character)
    if plain == name then
      return false
    end
    name = plain
  end
  return true
end

local function entry(name)
  if holds_key(name) then
    return ""
  end
end

local function without_keys(list)
  if #list > longest then
    return ""
  end
  local kept = ("," .. list):gsub(",([^,=]*)[^,]*", entry)
  return kept:sub(2)
end

function envoy_on_request(handle)
  local headers = handle:headers()
  for _, name in ipairs({"baggage", "tracestate"}) do
    local list = headers:get(name)
    if list and (list:find(member, 1, true) or list:find("%", 1, true)) then
      local ok, kept = pcall(without_keys, list)
      if not ok or kept ~= list then
        headers:remove(name)
        if ok and kept ~= "" then
          headers:add(name, kept)
        end
      end
    end
  end
end
