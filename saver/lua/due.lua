--[[
Name the threads of a partition whose turn has come, longest waiting first.

KEYS    1 dirty, idle or wanted
ARGV    1 waiting for at least, ms   2 most names
RETURN  {thread id, ...}
]]
local time = redis.call('TIME')
local cut = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[1])
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', cut, 'LIMIT', 0, ARGV[2])
