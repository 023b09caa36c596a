--[[
Read the checkpoints of a namespace below an id, newest first, with their writes and the blobs of some channels.

Below the floor, and of a checkpoint whose row is elsewhere, hot holds a part: the caller asks cold for the rest.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 namespace   3 newest id to read, or empty for all   4 only ids before this, or empty
        5 most entries   6... channels
RETURN  {0, floor, head, 1 if there are more, {id, row or false, {writes...}, ...}, {blob name, blob, ...}},
        {1} not resident, {3} suspect
]]
local status = resident()
if status == SUSPECT then
  return { SUSPECT }
end
local place = status and redis.call('HGET', KEYS[1], 'N' .. ARGV[2])
if not place then
  return status and { OK, '', '', 0, {}, {} } or { MISS }
end
local n, floor, head = cmsgpack.unpack(place)
if n < 0 then
  return { MISS }
end
redis.pcall('ZADD', KEYS[5], 'XX', now(), ARGV[1])
live_on()
local ids, is_known, most = {}, {}, tonumber(ARGV[5])
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local number, id = string.match(name, '^[ck](%d+):(.*)$')
  local is_asked = tonumber(number) == n and not is_known[id]
  if is_asked and (ARGV[3] == '' or id <= ARGV[3]) and (ARGV[4] == '' or id < ARGV[4]) then
    is_known[id] = true
    ids[#ids + 1] = id
  end
end
table.sort(ids, function(a, b)
  return a > b
end)
local is_wanted, entries, blobs, seen = {}, {}, {}, {}
for i = 6, #ARGV do
  is_wanted[ARGV[i]] = true
end
for i = 1, math.min(#ids, most) do
  local row = redis.call('HGET', KEYS[1], 'c' .. n .. ':' .. ids[i])
  for _, value in ipairs({ ids[i], row, chunks_of(n, ids[i]) }) do
    entries[#entries + 1] = value
  end
  for _, name in ipairs(row and select(2, cmsgpack.unpack_one(row, 0)) or {}) do
    if is_wanted[string.match(name, '^(.-)%z')] then
      add_blob(blobs, seen, n, name)
    end
  end
end
return { OK, floor, head, #ids > most and 1 or 0, entries, blobs }
