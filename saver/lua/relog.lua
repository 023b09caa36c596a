--[[
Log rows again that Postgres has lost, so that they are archived once more. Rows that are not here any more are left out.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine
ARGV    1 thread id   2 namespace   3... kind (b, w or c) and name, in pairs: blobs before the rows that refer to them
RETURN  rows logged, -1 not resident or suspect
]]
local status, incarnation, tail, count, place = resident(ARGV[2])
local n = place and cmsgpack.unpack(place) or -1
if status ~= OK or n < 0 then
  return -1
end
local names = {}
for i = 3, #ARGV, 2 do
  local field = ARGV[i] .. n .. ':' .. ARGV[i + 1]
  if ARGV[i] == 'w' then
    local calls = tonumber(redis.call('HGET', KEYS[1], 'k' .. n .. ':' .. ARGV[i + 1]) or 0)
    for k = 0, calls - 1 do
      names[#names + 1] = field .. ':' .. k
    end
  elseif redis.call('HEXISTS', KEYS[1], field) == 1 then
    names[#names + 1] = field
  end
end
if #names > 0 then
  tail = log_rows(names, tail, now())
  save_state(incarnation, tail, count)
end
return #names
