--[[
Shorten the log up to what Postgres has committed, only in the incarnation it was read from.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 incarnation   3 position   4 moment of the read, or empty if rows were left
RETURN  entries left, -1 another incarnation
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed then
  return -1
end
local incarnation, _, tail = cmsgpack.unpack(packed)
if incarnation ~= tonumber(ARGV[2]) then
  return -1
end
local length = redis.call('LLEN', KEYS[2])
local done = tonumber(ARGV[3]) - (tail - length)
if done > 0 then
  redis.call('LTRIM', KEYS[2], done, -1)
  length = math.max(length - done, 0)
end
if length == 0 then
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('HDEL', KEYS[7], ARGV[1])
elseif ARGV[4] ~= '' and done > 0 then
  redis.pcall('ZADD', KEYS[4], 'XX', ARGV[4], ARGV[1])
end
return length
