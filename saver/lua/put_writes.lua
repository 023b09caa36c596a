--[[
Store the writes of one task, of a checkpoint that may not be here yet.

A call that repeats the newest one of its checkpoint is stored once.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 history   2 thread id   3 namespace   4 checkpoint id   5 history of the run, or empty
        6 token candidate   7 token lifetime, ms   8 the writes
RETURN  {0, incarnation, tail, 1 if the partition was clean}, {1, load token} not resident, {3} suspect,
        {4} the history of the run is gone
]]
local status, incarnation, tail, count, place = resident(ARGV[3])
if status == SUSPECT then
  return { SUSPECT }
elseif ARGV[5] ~= '' and ARGV[5] ~= ARGV[1] then
  return { STALE }
end
local n = -1
if place then
  n = cmsgpack.unpack(place)
elseif status then
  n, count = count, count + 1
  redis.call('HSET', KEYS[1], 'N' .. ARGV[3], cmsgpack.pack(n, '', ''))
end
if n < 0 then
  return { MISS, load_token(ARGV[6], ARGV[7]) }
end
local suffix = n .. ':' .. ARGV[4]
local calls = tonumber(redis.call('HGET', KEYS[1], 'k' .. suffix) or 0)
local first = 0
if calls == 0 or redis.call('HGET', KEYS[1], 'w' .. suffix .. ':' .. (calls - 1)) ~= ARGV[8] then
  local name = 'w' .. suffix .. ':' .. calls
  tail, first = log_rows({ name }, tail, now())
  save_state(incarnation, tail, count, name, ARGV[8], 'k' .. suffix, calls + 1)
end
return { OK, incarnation, tail, first }
