--[[
Read one checkpoint with its writes and blobs: the newest of a namespace, or one by id.

Below the floor hot holds a part at most: the caller merges it with cold. Reading counts as an access. A server that
has become a replica refuses, as it may lack what the primary has.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 history   2 thread id   3 namespace   4 checkpoint id, or empty for the newest
RETURN  {0, id, row or false, {writes...}, {blob name, blob, ...}, history} hot answers alone,
        {5, the same} below the floor, {1, history} not resident, {3, history} suspect
]]
local status, _, _, _, place = resident(ARGV[3])
if status == SUSPECT then
  return { SUSPECT, ARGV[1] }
end
local n, floor, head = -1, '', ''
if place then
  n, floor, head = cmsgpack.unpack(place)
end
if n < 0 then
  if status and not place then
    return { OK, '', false, {}, {}, ARGV[1] }
  end
  redis.pcall('ZADD', KEYS[6], 'NX', now(), ARGV[2])
  return { MISS, ARGV[1] }
end
local touched = redis.pcall('ZADD', KEYS[5], 'XX', now(), ARGV[2])
if type(touched) == 'table' and string.find(touched.err, 'READONLY', 1, true) then
  return touched
end
local id = ARGV[4] ~= '' and ARGV[4] or head
local row = redis.call('HGET', KEYS[1], 'c' .. n .. ':' .. id)
local blobs = {}
if row then
  local _, references = cmsgpack.unpack_one(row, 0)
  for _, name in ipairs(references) do
    blobs[#blobs + 1] = name
    blobs[#blobs + 1] = redis.call('HGET', KEYS[1], 'b' .. n .. ':' .. name)
  end
end
return { id >= floor and OK or PART, id, row, chunks_of(n, id), blobs, ARGV[1] }
