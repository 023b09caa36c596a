--[[
Read a page of checkpoints, newest first by id, with their writes and blobs; each blob once.

Only what hot has: the floors tell the caller which ids it must also ask cold for. Below the floor hot may have the
writes of a checkpoint whose row is in cold.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 1 = one namespace, 0 = all   3 namespace   4 checkpoint id, or empty
        5 only ids before this one, or empty   6 most entries   7 id and   8 namespace of the last entry seen, or empty
RETURN  {0, {namespace, 1 if loaded, floor, ...}, {namespace, id, row or false, {writes...}, ...},
        {namespace, name, blob, ...}}, {1} not resident, {3} suspect
]]
local status = resident()
if status ~= OK then
  return { status or MISS }
end
local names, loaded, floors, spaces, found = redis.call('HKEYS', KEYS[1]), {}, {}, {}, {}
for _, name in ipairs(names) do
  if string.sub(name, 1, 1) == 'N' then
    local n, floor = cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
    local ns = string.sub(name, 2)
    for _, value in ipairs({ ns, n >= 0 and 1 or 0, floor or '' }) do
      spaces[#spaces + 1] = value
    end
    if n >= 0 and (ARGV[2] == '0' or ns == ARGV[3]) then
      loaded[tostring(n)], floors[tostring(n)] = ns, floor
    end
  end
end
for _, name in ipairs(names) do
  local kind, n, id = string.match(name, '^([ck])(%d+):(.*)$')
  local is_asked = kind and loaded[n] and (ARGV[4] == '' or id == ARGV[4]) and (ARGV[5] == '' or id < ARGV[5])
  if kind == 'k' and is_asked then
    is_asked = id < floors[n] and redis.call('HEXISTS', KEYS[1], 'c' .. n .. ':' .. id) == 0
  end
  if is_asked and (ARGV[7] == '' or id < ARGV[7] or (id == ARGV[7] and loaded[n] < ARGV[8])) then
    found[#found + 1] = { id = id, n = n }
  end
end
table.sort(found, function(a, b)
  return a.id > b.id or (a.id == b.id and loaded[a.n] > loaded[b.n])
end)
local entries, blobs, seen = {}, {}, {}
for i = 1, math.min(#found, tonumber(ARGV[6])) do
  local n, id = found[i].n, found[i].id
  local row = redis.call('HGET', KEYS[1], 'c' .. n .. ':' .. id)
  for _, value in ipairs({ loaded[n], id, row, chunks_of(n, id) }) do
    entries[#entries + 1] = value
  end
  for _, name in ipairs(row and select(2, cmsgpack.unpack_one(row, 0)) or {}) do
    add_blob(blobs, seen, n, name, loaded[n])
  end
end
return { OK, spaces, entries, blobs }
