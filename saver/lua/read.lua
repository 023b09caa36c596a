--[[
Read one checkpoint with its writes and blobs: the newest of a namespace, or one by id.

Below the floor hot holds a part at most: the caller merges it with cold. Reading counts as an access.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 namespace   3 checkpoint id, or empty for the newest
RETURN  {0, id, row or false, {writes...}, {blob name, blob, ...}, history} hot answers alone,
        {5, the same} below the floor, {1, history} not resident, {3, history} suspect
]]
local status, _, _, _, place = resident(ARGV[2])
if status == SUSPECT then
  return { SUSPECT, HISTORY }
end
local n, floor, head = -1, '', ''
if place then
  n, floor, head = cmsgpack.unpack(place)
end
if n < 0 then
  if status and not place then
    return { OK, '', false, {}, {}, HISTORY }
  end
  redis.pcall('ZADD', KEYS[6], 'NX', now(), ARGV[1])
  return { MISS, HISTORY }
end
redis.pcall('ZADD', KEYS[5], 'XX', now(), ARGV[1])
live_on()
local id = ARGV[3] ~= '' and ARGV[3] or head
local row = redis.call('HGET', KEYS[1], 'c' .. n .. ':' .. id)
local blobs = {}
if row then
  local _, references = cmsgpack.unpack_one(row, 0)
  local seen = {}
  for _, name in ipairs(references) do
    add_blob(blobs, seen, n, name)
  end
end
return { id >= floor and OK or PART, id, row, chunks_of(n, id), blobs, HISTORY }
