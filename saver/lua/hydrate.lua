--[[
Make a namespace resident with what was read from cold. Loaded rows never enter the log.

Refused when the load token is gone (the thread was evicted or changed since) or the namespace is resident by now.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 load token   3 incarnation   4 namespace   5 floor   6 head
        7 ms without access until a new thread vanishes, 0 if it is archived
        8 count of other namespaces in cold   9... those, then kind (c, b, w), name and value, in triples
RETURN  1 resident now, 0 refused, -1 suspect
]]
local status, incarnation, tail, count = resident()
if status == SUSPECT then
  return -1
end
local token = redis.call('GET', KEYS[3])
if token ~= ARGV[2] or string.sub(token, 1, #HISTORY) ~= HISTORY then
  return 0
end
if status then
  local place = redis.call('HGET', KEYS[1], 'N' .. ARGV[4])
  if not place or cmsgpack.unpack(place) >= 0 then
    return 0
  end
else
  incarnation, tail, count, vanishes_after = tonumber(ARGV[3]), 0, 0, tonumber(ARGV[7])
  for i = 9, 8 + ARGV[8] do
    redis.call('HSET', KEYS[1], 'N' .. ARGV[i], cmsgpack.pack(-1))
  end
end
local n = count
for i = 9 + ARGV[8], #ARGV, 3 do
  local kind, name, value = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if kind == 'w' then
    redis.call('HSET', KEYS[1], 'w' .. n .. ':' .. name .. ':0', value, 'k' .. n .. ':' .. name, 1)
  else
    redis.call('HSET', KEYS[1], kind .. n .. ':' .. name, value)
  end
end
redis.call('HSET', KEYS[1], 'N' .. ARGV[4], cmsgpack.pack(n, ARGV[5], ARGV[6]))
save_state(incarnation, tail, count + 1)
redis.call('ZADD', KEYS[5], now(), ARGV[1])
redis.call('ZREM', KEYS[6], ARGV[1])
return 1
