--[[
Hold the run lock of a thread for longer, or release it. One that ran out is not taken again: another run may have come
and gone meanwhile.

KEYS    1 run lock
ARGV    1 thread id   2 token of the run   3 lifetime, ms; 0 = release it
RETURN  1 done, 0 this run does not have it
]]
if redis.call('GET', KEYS[1]) ~= HISTORY .. ':' .. ARGV[2] then
  return 0
end
if ARGV[3] == '0' then
  return redis.call('UNLINK', KEYS[1])
end
return redis.call('PEXPIRE', KEYS[1], ARGV[3])
