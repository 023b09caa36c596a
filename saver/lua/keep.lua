--[[
Archive a thread from now on that would vanish.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id
RETURN  1 done, 0 it is archived anyway, or not here
]]
local status, incarnation, tail, count = resident()
if status ~= OK or vanishes_after == 0 then
  return 0
end
vanishes_after = 0
save_state(incarnation, tail, count)
redis.call('PERSIST', KEYS[1])
if redis.call('PERSIST', KEYS[2]) == 1 then
  redis.call('ZADD', KEYS[4], 'NX', now(), ARGV[1])
end
return 1
