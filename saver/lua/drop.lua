--[[
Drop a copy that Postgres has outlived: one from another history once it is archived, or a ghost of a failover.

Of one from another history, nothing may have been logged behind what was archived.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 incarnation   3 its tail, or empty whatever it is
RETURN  1 dropped, 0 more is here than was archived, -1 not here, or another incarnation
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed then
  return -1
end
local incarnation, _, tail = cmsgpack.unpack(packed)
if incarnation ~= tonumber(ARGV[2]) then
  return -1
elseif ARGV[3] ~= '' and tail ~= tonumber(ARGV[3]) then
  return 0
end
forget()
return 1
