--[[
Drop a clean thread from Redis, with its load token.

A row that is not in Postgres yet, or an access more recent than the cut-off, keeps the thread hot. A suspect copy
without a log goes like any other. A thread that vanishes goes with its log, only when told so.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 idle for at least, ms; 0 = whatever the last access   3 1 = also one that vanishes
RETURN  2 vanished, by itself or now, 1 dropped, 0 not archived, -1 was not here, -2 in use
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed then
  local is_known = redis.call('ZREM', KEYS[5], ARGV[1]) == 1
  forget()
  return is_known and 2 or -1
end
local vanishes = (select(5, cmsgpack.unpack(packed)) or 0) > 0 and ARGV[3] == '1'
if redis.call('EXISTS', KEYS[2]) == 1 and not vanishes then
  return 0
end
local last_access = tonumber(redis.call('ZSCORE', KEYS[5], ARGV[1]) or 0)
if tonumber(ARGV[2]) > 0 and last_access > tonumber(now()) - tonumber(ARGV[2]) then
  return -2
end
forget()
return vanishes and 2 or 1
