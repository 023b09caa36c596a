--[[
Drop a copy that Postgres has outlived: one from another history once it is archived, or a ghost of a failover.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 history   2 thread id   3 incarnation
RETURN  1 dropped, 0 another incarnation is here
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed or cmsgpack.unpack(packed) ~= tonumber(ARGV[3]) then
  return 0
end
forget()
return 1
