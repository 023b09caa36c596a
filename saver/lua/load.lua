--[[
Ask for the right to load a namespace from cold.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 namespace   3 token candidate   4 token lifetime, ms
RETURN  {0} resident already, {1, load token}, {3} suspect
]]
local status = resident()
if status == SUSPECT then
  return { SUSPECT }
end
if status then
  local place = redis.call('HGET', KEYS[1], 'N' .. ARGV[2])
  if not place or cmsgpack.unpack(place) >= 0 then
    redis.call('ZREM', KEYS[6], ARGV[1])
    return { OK }
  end
end
return { MISS, load_token(ARGV[3], ARGV[4]) }
