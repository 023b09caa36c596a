--[[
Outline a thread by namespace, in numbers and bytes, never its content. It is no access and changes nothing.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id
RETURN  {} not here, or {incarnation, 1 if suspect, log length, ms since the oldest row in the log or -1,
        ms since the last access or -1, why it is set aside or '', {namespace, 1 if loaded, floor,
        checkpoints, blobs, calls of put_writes, bytes, ...}}
]]
local packed = redis.call('HGET', KEYS[1], 's')
if not packed then
  return {}
end
local incarnation, history = cmsgpack.unpack(packed)
local spaces, counts = {}, {}
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local kind, n = string.match(name, '^([bcw])(%d+):')
  if kind then
    local of = counts[n] or { c = 0, b = 0, w = 0, bytes = 0 }
    of[kind] = of[kind] + 1
    of.bytes = of.bytes + redis.call('HSTRLEN', KEYS[1], name)
    counts[n] = of
  elseif string.sub(name, 1, 1) == 'N' then
    local number, floor = cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
    spaces[#spaces + 1] = { string.sub(name, 2), tostring(number), floor or '' }
  end
end
local flat = {}
for _, space in ipairs(spaces) do
  local of = counts[space[2]] or { c = 0, b = 0, w = 0, bytes = 0 }
  local loaded = tonumber(space[2]) >= 0 and 1 or 0
  for _, value in ipairs({ space[1], loaded, space[3], of.c, of.b, of.w, of.bytes }) do
    flat[#flat + 1] = value
  end
end
local function age(key)
  local moment = redis.call('ZSCORE', key, ARGV[1])
  return moment and math.max(tonumber(now()) - tonumber(moment), 0) or -1
end
local suspect = history ~= HISTORY and 1 or 0
local aside = redis.call('HGET', KEYS[7], ARGV[1]) or ''
return { incarnation, suspect, redis.call('LLEN', KEYS[2]), age(KEYS[4]), age(KEYS[5]), aside, flat }
