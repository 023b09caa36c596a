--[[
Store the writes of one task, of a checkpoint that may not be here yet.

A call that repeats the newest one of its checkpoint is stored once.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine   8 run lock, if the run holds one
ARGV    1 thread id   2 namespace   3 checkpoint id   4 token candidate
        5 token lifetime, ms   6 token of the run lock   7 the writes
RETURN  {0, incarnation, tail, 1 if the partition was clean, ms without access until it vanishes or 0},
        {1, load token} not resident, {3} suspect, {6} the run lock is lost
]]
local status, incarnation, tail, count, place = resident(ARGV[2])
if status == SUSPECT then
  return { SUSPECT }
elseif has_lost_lock(ARGV[6]) then
  return { LOCKED }
end
local n = -1
if place then
  n = cmsgpack.unpack(place)
elseif status then
  n, count = count, count + 1
  redis.call('HSET', KEYS[1], 'N' .. ARGV[2], cmsgpack.pack(n, '', ''))
end
if n < 0 then
  return { MISS, load_token(ARGV[4], ARGV[5]) }
end
local suffix = n .. ':' .. ARGV[3]
local calls = tonumber(redis.call('HGET', KEYS[1], 'k' .. suffix) or 0)
local first = 0
if calls == 0 or redis.call('HGET', KEYS[1], 'w' .. suffix .. ':' .. (calls - 1)) ~= ARGV[7] then
  local name = 'w' .. suffix .. ':' .. calls
  tail, first = log_rows({ name }, tail, now())
  save_state(incarnation, tail, count, name, ARGV[7], 'k' .. suffix, calls + 1)
end
return { OK, incarnation, tail, first, vanishes_after }
