--[[
Read the rows of a thread that are not in Postgres yet, oldest first.

Of a suspect copy the positions that Postgres has seen are left out: newer values may stand there.
A checkpoint row that is logged again behind the cut waits for its later entry: its blobs may lie there too.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 most bytes   3 incarnation and   4 position that Postgres has seen
RETURN  {} nothing to archive, or {incarnation, 1 if suspect, base, count of log entries read, log length,
        moment, {namespace, number, ...}, {field, value, ...}}
]]
local length = redis.call('LLEN', KEYS[2])
local packed = redis.call('HGET', KEYS[1], 's')
if length == 0 or not packed then
  redis.call('ZREM', KEYS[4], ARGV[1])
  return {}
end
local incarnation, history, tail = cmsgpack.unpack(packed)
local names, seen, order, size, count = redis.call('LRANGE', KEYS[2], 0, -1), {}, {}, 0, 0
local suspect, skip = history ~= HISTORY, 0
if suspect and incarnation == tonumber(ARGV[3]) then
  skip = math.max(ARGV[4] - (tail - length), 0)
end
for i = 1, length do
  local name = names[i]
  if i > skip and not seen[name] then
    size = size + redis.call('HSTRLEN', KEYS[1], name)
    if #order > 0 and size > tonumber(ARGV[2]) then
      break
    end
    seen[name] = true
    order[#order + 1] = name
  end
  count = count + 1
end
for i = count + 1, length do
  if string.sub(names[i], 1, 1) == 'c' then
    seen[names[i]] = false
  end
end
local rows, wanted, spaces = {}, {}, {}
for _, name in ipairs(order) do
  if seen[name] then
    rows[#rows + 1] = name
    rows[#rows + 1] = redis.call('HGET', KEYS[1], name)
    wanted[string.match(name, '^%a(%d+):')] = true
  end
end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(name, 1, 1) == 'N' then
    local n = cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
    if wanted[tostring(n)] then
      spaces[#spaces + 1] = string.sub(name, 2)
      spaces[#spaces + 1] = n
    end
  end
end
return { incarnation, suspect and 1 or 0, tail - length, count, length, now(), spaces, rows }
