--[[
Shared first part of every script: it refuses to run on a replica, and knows which history of Redis this is.

KEYS    1 thread   2 log   3 load token   4 dirty   5 idle   6 wanted   7 quarantine   8 run lock
ARGV    1 thread id
RETURN  nothing, or an error on a replica

Fields of the thread: `s` (incarnation, history, tail, count of namespaces, ms without access until it vanishes or 0),
`N<ns>` (number, floor, head; number -1 for a namespace that is in cold and not loaded), `c<n>:<id>` checkpoint,
`b<n>:<channel><NUL><version>` blob, whole or a patch of a newer one,
`w<n>:<id>:<k>` the k-th call of put_writes, `k<n>:<id>` how many. The tail counts every row ever logged in this
incarnation; the log keeps the last of them, so an acknowledgement only shortens a list and works when memory is full.
]]
local OK, MISS, NEED, SUSPECT, STALE, PART, LOCKED = 0, 1, 2, 3, 4, 5, 6

-- The replication id changes whenever a server may have lost writes. It is read in the same step as the thread, so
-- nothing has to be believed about time or connections. A replica has the id of its primary, and may lack its writes.
local replication = redis.call('INFO', 'replication')
if string.match(replication, 'role:(%a+)') == 'slave' then
  return redis.error_reply('READONLY this is a replica')
end
local HISTORY = string.sub(string.match(replication, 'master_replid:(%x+)') or 'unknown', 1, 16)

local function now()
  local time = redis.call('TIME')
  return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
end

-- Only a run that holds a lock is asked for it; one from before a failover is void.
local function has_lost_lock(token)
  return KEYS[8] and redis.call('GET', KEYS[8]) ~= HISTORY .. ':' .. token
end

local function forget()
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('ZREM', KEYS[5], ARGV[1])
  redis.call('HDEL', KEYS[7], ARGV[1])
end

-- Of a thread that vanishes; known once its state was read. Its two keys end at the same moment: never only one.
local vanishes_after = 0

local function live_on()
  if vanishes_after > 0 then
    local ends = string.format('%.0f', tonumber(now()) + vanishes_after)
    redis.call('PEXPIREAT', KEYS[1], ends)
    redis.call('PEXPIREAT', KEYS[2], ends)
  end
end

-- More fields and their values may be stored with it.
local function save_state(incarnation, tail, count, ...)
  redis.call('HSET', KEYS[1], 's', cmsgpack.pack(incarnation, HISTORY, tail, count, vanishes_after), ...)
  live_on()
end

-- A copy from another history may lack acknowledged rows: with a log it must be archived first, without one it goes.
-- Given the name of a namespace, its field comes last: both are read at once.
local function resident(namespace)
  local found = redis.call('HMGET', KEYS[1], 's', 'N' .. (namespace or ''))
  if not found[1] then
    return nil
  end
  local incarnation, history, tail, count, after = cmsgpack.unpack(found[1])
  vanishes_after = after or 0
  if history ~= HISTORY then
    if redis.call('EXISTS', KEYS[2]) == 1 then
      return SUSPECT
    end
    forget()
    return nil
  end
  return OK, incarnation, tail, count, found[2]
end

-- One token at a time, shared by all who miss; one from before a failover is void.
local function load_token(candidate, lifetime)
  local token = redis.call('GET', KEYS[3])
  if token and string.sub(token, 1, #HISTORY) == HISTORY then
    return token
  end
  token = HISTORY .. ':' .. candidate
  redis.call('SET', KEYS[3], token, 'PX', lifetime)
  return token
end

-- The older score stays: it is the age of the oldest row that is not in Postgres.
local function log_rows(names, tail, moment)
  local length, is_first = 0, 0
  for first = 1, #names, 1000 do
    length = redis.call('RPUSH', KEYS[2], unpack(names, first, math.min(first + 999, #names)))
  end
  if length == #names and vanishes_after == 0 then
    is_first = redis.call('EXISTS', KEYS[4]) == 0 and 1 or 0
    redis.call('ZADD', KEYS[4], 'NX', moment, ARGV[1])
  end
  redis.call('ZADD', KEYS[5], moment, ARGV[1])
  return tail + #names, is_first
end

local function chunks_of(n, id)
  local count = tonumber(redis.call('HGET', KEYS[1], 'k' .. n .. ':' .. id) or 0)
  local chunks = {}
  for k = 0, count - 1 do
    chunks[k + 1] = redis.call('HGET', KEYS[1], 'w' .. n .. ':' .. id .. ':' .. k)
  end
  return chunks
end

-- The blob that a patch is made of, and how long it makes it.
local function newer_of(value)
  if value and string.byte(value) == 112 then
    local _, told = cmsgpack.unpack_one(value, 1)
    return told[1], tonumber(told[2])
  end
end

-- Add a blob that was not seen yet, with those it is a patch of, as name and value; behind the namespace if given.
local function add_blob(blobs, seen, n, name, namespace)
  while name and not seen[n .. ':' .. name] do
    seen[n .. ':' .. name] = true
    local value = redis.call('HGET', KEYS[1], 'b' .. n .. ':' .. name)
    blobs[#blobs + 1] = namespace or name
    if namespace then
      blobs[#blobs + 1] = name
    end
    blobs[#blobs + 1] = value
    name = newer_of(value)
  end
end

-- A blob becomes a patch of the one just stored, if it is the very value that the caller knows: tag, name, patch.
local function supersede(prefix, order)
  local at, name = cmsgpack.unpack_one(order, 9)
  local value = redis.call('HGET', KEYS[1], prefix .. name)
  if value and string.sub(value, 1, 9) == string.sub(order, 1, 9) then
    redis.call('HSET', KEYS[1], prefix .. name, string.sub(order, at + 1))
  end
end
