--[[
Make sure that a thread is not in Redis and that no load of it can finish; a resident thread is left alone.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id
RETURN  1 not here, 0 in use
]]
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('UNLINK', KEYS[3])
return 1
