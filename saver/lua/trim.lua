--[[
Raise the floor of a clean thread in use: keep the newest checkpoints of each namespace and the blobs they refer to.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 checkpoints to keep per namespace
RETURN  fields dropped, -1 not archived or suspect or not here
]]
local keep = tonumber(ARGV[2])
if resident() ~= OK or redis.call('EXISTS', KEYS[2]) == 1 then
  return -1
end
if redis.call('HLEN', KEYS[1]) <= keep then
  return 0
end
local names, ids, floors, used = redis.call('HKEYS', KEYS[1]), {}, {}, {}
for _, name in ipairs(names) do
  local n, id = string.match(name, '^c(%d+):(.*)$')
  if n then
    ids[n] = ids[n] or {}
    table.insert(ids[n], id)
  end
end
for n, list in pairs(ids) do
  table.sort(list)
  if #list > keep then
    floors[n] = list[#list - keep + 1]
    for i = #list - keep + 1, #list do
      local _, references = cmsgpack.unpack_one(redis.call('HGET', KEYS[1], 'c' .. n .. ':' .. list[i]), 0)
      for _, name in ipairs(references) do
        add_blob({}, used, n, name)
      end
    end
  end
end
local gone = {}
for _, name in ipairs(names) do
  local kind, n, rest = string.match(name, '^([bcwk])(%d+):(.*)$')
  local floor = kind and floors[n]
  if floor then
    local id = kind == 'w' and string.match(rest, '^(.*):%d+$') or rest
    if (kind == 'b' and not used[n .. ':' .. rest]) or (kind ~= 'b' and id < floor) then
      gone[#gone + 1] = name
    end
  elseif string.sub(name, 1, 1) == 'N' then
    local number, old, head = cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
    local raised = floors[tostring(number)]
    if raised and raised > old then
      redis.call('HSET', KEYS[1], name, cmsgpack.pack(number, raised, head))
    end
  end
end
for first = 1, #gone, 1000 do
  redis.call('HDEL', KEYS[1], unpack(gone, first, math.min(first + 999, #gone)))
end
-- A hash that became small gives its old table back bit by bit, whenever it is used.
for _ = 1, #gone / 4 do
  redis.call('HEXISTS', KEYS[1], 's')
end
return #gone
