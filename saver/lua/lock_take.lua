--[[
Take the run lock of a thread, or find that this run has it already. One from before a failover is void.

KEYS    1 run lock
ARGV    1 thread id   2 token of the run   3 lifetime, ms
RETURN  1 taken, 0 another run has it
]]
local mine = HISTORY .. ':' .. ARGV[2]
local found = redis.call('GET', KEYS[1])
if found and found ~= mine and string.sub(found, 1, #HISTORY) == HISTORY then
  return 0
end
redis.call('SET', KEYS[1], mine, 'PX', ARGV[3])
return 1
