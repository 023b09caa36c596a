--[[
Set a dirty thread aside, so that it does not starve others, or put it back in line.

Why it was refused stays known while it is in line again; who archives it forgets that.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 why it was refused, or empty to put it back
RETURN  1 done, 0 nothing to do
]]
local is_dirty = redis.call('EXISTS', KEYS[2]) == 1
if ARGV[2] ~= '' then
  if not is_dirty then
    return 0
  end
  redis.call('HSET', KEYS[7], ARGV[1], ARGV[2])
  redis.call('ZREM', KEYS[4], ARGV[1])
  return 1
end
if not is_dirty then
  return redis.call('HDEL', KEYS[7], ARGV[1])
end
if redis.call('HEXISTS', KEYS[7], ARGV[1]) == 0 then
  return 0
end
redis.call('ZADD', KEYS[4], 'NX', now(), ARGV[1])
return 1
