--[[
Store a checkpoint with its changed blobs: log the blobs before the row that refers to them.

Blobs keep their first value, the checkpoint row its last. Nothing is stored unless all is.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 history   2 thread id   3 namespace   4 checkpoint id   5 parent that must exist, or empty
        6 history of the run, or empty   7 token candidate   8 token lifetime, ms
        9 checkpoint row, its references first
        10... blob name and blob, in pairs; an empty blob may be missing
RETURN  {0, incarnation, tail, 1 if the partition was clean}, {1, load token} not resident, {2} a blob is missing,
        {3} suspect, {4} the parent or the history of the run is gone
]]
local status, incarnation, tail, count = resident()
if status == SUSPECT then
  return { SUSPECT }
elseif ARGV[6] ~= '' and ARGV[6] ~= ARGV[1] then
  return { STALE }
end
local place = status and redis.call('HGET', KEYS[1], 'N' .. ARGV[3])
local n, floor, head = -1, '', ''
if place then
  n, floor, head = cmsgpack.unpack(place)
elseif status then
  n, count = count, count + 1
end
if n < 0 then
  return { MISS, load_token(ARGV[7], ARGV[8]) }
end
local id, prefix = ARGV[4], 'b' .. n .. ':'
if ARGV[5] ~= '' and ARGV[5] >= floor and redis.call('HEXISTS', KEYS[1], 'c' .. n .. ':' .. ARGV[5]) == 0 then
  return { STALE }
end
local given = {}
for i = 10, #ARGV, 2 do
  given[ARGV[i]] = true
end
local _, references = cmsgpack.unpack_one(ARGV[9], 0)
for _, name in ipairs(references) do
  if not given[name] and redis.call('HEXISTS', KEYS[1], prefix .. name) == 0 then
    return { NEED }
  end
end
local names = {}
for i = 10, #ARGV, 2 do
  if ARGV[i + 1] ~= '' and redis.call('HSETNX', KEYS[1], prefix .. ARGV[i], ARGV[i + 1]) == 1 then
    names[#names + 1] = prefix .. ARGV[i]
  end
end
names[#names + 1] = 'c' .. n .. ':' .. id
redis.call('HSET', KEYS[1], names[#names], ARGV[9])
if not place or id > head then
  redis.call('HSET', KEYS[1], 'N' .. ARGV[3], cmsgpack.pack(n, floor, id > head and id or head))
end
local first
tail, first = log_rows(names, tail, now())
save_state(incarnation, tail, count)
return { OK, incarnation, tail, first }
