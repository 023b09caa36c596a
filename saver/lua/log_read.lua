--[[
Read the rows of a thread that are not in Postgres yet, oldest first.

The positions that Postgres has seen are left out: another archiver has committed them and is about to acknowledge, or
the copy is suspect, and newer values may stand there.
A checkpoint row that is logged again behind the cut waits for its later entry: its blobs may lie there too.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 most bytes   3 incarnation and   4 position that Postgres has seen
RETURN  {} nothing to archive, or {incarnation, 1 if suspect, base, count of log entries read, log length,
        moment, {namespace, number, ...}, {field, value, ...}, {number, name, blob, ...} what those are patches of}
]]
local length = redis.call('LLEN', KEYS[2])
local packed = redis.call('HGET', KEYS[1], 's')
if length == 0 or not packed then
  redis.call('ZREM', KEYS[4], ARGV[1])
  return {}
end
local incarnation, history, tail = cmsgpack.unpack(packed)
local names, seen, order, size, count = redis.call('LRANGE', KEYS[2], 0, -1), {}, {}, 0, 0
local values, given, newer = {}, {}, {}
local suspect, skip = history ~= HISTORY, 0
if incarnation == tonumber(ARGV[3]) then
  skip = math.max(ARGV[4] - (tail - length), 0)
end
for i = 1, length do
  local name = names[i]
  if i > skip and not seen[name] then
    local value = redis.call('HGET', KEYS[1], name)
    local _, made_size = newer_of(value)
    size = size + (made_size or #value)
    if #order > 0 and size > tonumber(ARGV[2]) then
      break
    end
    seen[name], values[name], given[string.sub(name, 2)] = true, value, true
    order[#order + 1] = name
  end
  count = count + 1
end
for i = count + 1, length do
  seen[names[i]] = seen[names[i]] and string.sub(names[i], 1, 1) ~= 'c'
end
local rows, wanted, spaces = {}, {}, {}
for _, name in ipairs(order) do
  if seen[name] then
    rows[#rows + 1] = name
    rows[#rows + 1] = values[name]
    local n = string.match(name, '^%a(%d+):')
    wanted[n] = true
    add_blob(newer, given, n, newer_of(values[name]), n)
  end
end
for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
  local space = string.match(name, '^N(.*)$')
  local n = space and cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
  if n and wanted[tostring(n)] then
    spaces[#spaces + 1] = space
    spaces[#spaces + 1] = n
  end
end
return { incarnation, suspect and 1 or 0, tail - length, count, length, now(), spaces, rows, newer }
