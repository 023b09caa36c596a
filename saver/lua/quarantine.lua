--[[
Set a dirty thread aside, so that it does not starve others, or put it back in line.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 history   2 thread id   3 why it was refused, or empty to put it back
RETURN  1 done, 0 nothing to do
]]
if ARGV[3] == '' then
  local was_aside = redis.call('HDEL', KEYS[7], ARGV[2])
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('ZADD', KEYS[4], 'NX', now(), ARGV[2])
  end
  return was_aside
end
if redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
redis.call('HSET', KEYS[7], ARGV[2], ARGV[3])
redis.call('ZREM', KEYS[4], ARGV[2])
return 1
