--[[
Judge a thread that vanishes, from another history of Redis: it is nowhere else, so it stays as it is. But one that
Postgres has outlived goes, because it was archived or deleted since.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 incarnation that Postgres has seen
RETURN  1 judged, 0 it is archived, or of this history, or not here
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed then
  return 0
end
local incarnation, history, tail, count, after = cmsgpack.unpack(packed)
if history == HISTORY or (after or 0) == 0 then
  return 0
end
if incarnation <= tonumber(ARGV[2]) then
  forget()
else
  vanishes_after = after
  save_state(incarnation, tail, count)
end
return 1
