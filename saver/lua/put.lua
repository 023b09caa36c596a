--[[
Store a checkpoint with its changed blobs: log the blobs before the row that refers to them.
Blobs keep their first value, the checkpoint row its last. Nothing is stored unless all is.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine   8 run lock, if the run holds one
ARGV    1 thread id   2 namespace   3 checkpoint id   4 parent that must exist, or empty   5 history of the run, or empty
        6 token candidate   7 token lifetime, ms   8 incarnation in which the parent was found in cold, or empty
        9 token of the run lock   10 checkpoint row, its references first
        11... blob name, blob, what becomes of the one before it or empty, in triples; an empty blob may be missing
RETURN  {0, incarnation, tail, 1 if the partition was clean, ms without access until it vanishes or 0},
        {1, load token} not resident, {2} a blob is missing, {3} suspect, {4} parent or history gone,
        {5, incarnation, 1 if hot has the parent} cold is to be asked for it, {6} the run lock is lost
]]
local status, incarnation, tail, count, place = resident(ARGV[2])
if status == SUSPECT then
  return { SUSPECT }
elseif has_lost_lock(ARGV[9]) then
  return { LOCKED }
elseif ARGV[5] ~= '' and ARGV[5] ~= HISTORY then
  return { STALE }
end
local n, floor, head = -1, '', ''
if place then
  n, floor, head = cmsgpack.unpack(place)
elseif status then
  n, count = count, count + 1
end
if n < 0 then
  return { MISS, load_token(ARGV[6], ARGV[7]) }
end
local id, prefix = ARGV[3], 'b' .. n .. ':'
local is_there = ARGV[4] == '' or redis.call('HEXISTS', KEYS[1], 'c' .. n .. ':' .. ARGV[4]) == 1
if ARGV[4] ~= '' and ARGV[4] < floor and ARGV[8] ~= string.format('%.0f', incarnation) then
  return { PART, incarnation, is_there and 1 or 0 }
elseif ARGV[4] >= floor and not is_there then
  return { STALE }
end
local given, names, first = {}, {}
for i = 11, #ARGV, 3 do
  given[ARGV[i]] = true
end
local _, references = cmsgpack.unpack_one(ARGV[10], 0)
for _, name in ipairs(references) do
  if not given[name] and redis.call('HEXISTS', KEYS[1], prefix .. name) == 0 then
    return { NEED }
  end
end
for i = 11, #ARGV, 3 do
  if ARGV[i + 1] ~= '' and redis.call('HSETNX', KEYS[1], prefix .. ARGV[i], ARGV[i + 1]) == 1 then
    names[#names + 1] = prefix .. ARGV[i]
    if ARGV[i + 2] ~= '' then
      supersede(prefix, ARGV[i + 2])
    end
  end
end
names[#names + 1] = 'c' .. n .. ':' .. id
tail, first = log_rows(names, tail, now())
local newest = cmsgpack.pack(n, floor, id > head and id or head)
save_state(incarnation, tail, count, names[#names], ARGV[10], 'N' .. ARGV[2], newest)
return { OK, incarnation, tail, first, vanishes_after }
