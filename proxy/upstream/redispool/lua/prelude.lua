-- What all scripts of a pool begin with. KEYS are those of redispool.keys, in
-- that order; ARGV[1] is this process, ARGV[2] the lease time, ARGV[3] how long
-- what others took counts as taken, both in ms. A script's own arguments follow.
local POOL, MEMBERS, REMOVED, RESTS, LEASES, ENDS, LOAD, OWNERS, LAST, USED, QUEUE, SEEN, SHOWN, CLAIMS, COPIES, META =
  unpack(KEYS)
local process, leaseTime, foreignTime = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local function hash(key)
  local flat, map = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do map[flat[i]] = flat[i + 1] end
  return map
end

local function set(key)
  local map = {}
  for _, v in ipairs(redis.call('SMEMBERS', key)) do map[v] = true end
  return map
end

local meta = hash(META)
if not meta.run and not declaring then return { err = 'UNDECLARED nobody has declared the pool' } end

-- The pool has a clock of its own, in ms. That of Redis is set now and then, and
-- the replica that takes over has another. This one never goes back, and between
-- two scripts never on by more than proxies leave between theirs: who renews a
-- lease in time does not lose it, whatever the other does. While no proxy is
-- there it stands still.
local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)
local passed = math.max(0, math.min(wall - tonumber(meta.seen or wall), leaseTime * 2 / 5))
local now = tonumber(meta.clock or wall) + math.floor(passed)
redis.call('HSET', META, 'clock', now, 'seen', wall)

-- A ledger that another run of Redis has written may have lost the last leases
-- of that run, be it by a crash or by a replica that was behind. None is given
-- until they have run out. What is known of a pool that Redis does not know says
-- ARGV[4], see declare.lua.
local function settle(known)
  local info = redis.call('INFO', 'server')
  local run = string.match(info, 'run_id:(%x+)')
  if meta.run == run then return end
  local wait = leaseTime
  if not meta.run and known == 'new' then
    wait = 0
  elseif not meta.run and known ~= 'again' then
    local up = (tonumber(string.match(info, 'uptime_in_seconds:(%d+)')) - 1) * 1000 -- it may say up to a second too much
    wait = math.max(0, leaseTime - math.max(0, math.min(up, tonumber(known))))
  end
  meta.run, meta.settled = run, now + wait -- leases name the run that they were given or renewed in
  redis.call('HSET', META, 'run', run, 'settled', meta.settled)
end
local function settling() return math.max(0, tonumber(meta.settled or 0) - now) end

settle(ARGV[4])

local capacity = tonumber(meta.capacity or 1)
local members, load, rests = hash(MEMBERS), hash(LOAD), hash(RESTS)
local function loadOf(url) return tonumber(load[url] or 0) end
local function foreign(url) return 'foreign ' .. url end

local function restOf(url)
  local r = rests[url]
  if not r then return 0, 0, '' end
  local till, failures, reason = string.match(r, '^(%d+)|(%d+)|(.*)$')
  return math.max(0, tonumber(till) - now), tonumber(failures), reason
end

local function recovered(url)
  rests[url] = nil
  redis.call('HDEL', RESTS, url)
end

local function addLoad(url, n)
  load[url] = loadOf(url) + n
  if load[url] <= 0 then
    load[url] = nil
    redis.call('HDEL', LOAD, url)
    if members[url] == 'gone' then
      members[url] = nil
      redis.call('HDEL', MEMBERS, url)
      recovered(url)
      redis.call('ZREM', USED, url)
    end
  else
    redis.call('HSET', LOAD, url, load[url])
  end
end

local function lease(token)
  local raw = redis.call('HGET', LEASES, token)
  return raw and cjson.decode(raw)
end

-- keep writes a lease; it ends when the last of its holders does.
local function keep(token, l)
  local last = 0
  for _, deadline in pairs(l.h) do last = math.max(last, deadline) end
  redis.call('HSET', LEASES, token, cjson.encode(l))
  redis.call('ZADD', ENDS, last, token)
end

local function drop(token, l)
  redis.call('HDEL', LEASES, token)
  redis.call('ZREM', ENDS, token)
  if redis.call('HGET', OWNERS, l.o) == token then redis.call('HDEL', OWNERS, l.o) end
  addLoad(l.u, -1)
end

local function reap()
  for _, token in ipairs(redis.call('ZRANGEBYSCORE', ENDS, '-inf', now)) do
    local l = lease(token)
    if l then drop(token, l) else redis.call('ZREM', ENDS, token) end
  end
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', SEEN, '-inf', now)) do
    redis.call('ZREM', SEEN, owner)
    redis.call('ZREM', QUEUE, owner)
  end
end

-- takeForeign notes that others have an upstream: as they popped it, or as they
-- say.
local function takeForeign(url, popped)
  local token = foreign(url)
  local l = lease(token)
  if not l then
    addLoad(url, 1)
    l = { o = '', u = url, s = wall, h = {} }
  end
  l.popped = l.popped or popped
  l.h.others = now + foreignTime
  keep(token, l)
end

-- watch looks at the pool's set, which others pop from and add to.
local function watch()
  for _, url in ipairs(redis.call('SDIFF', SHOWN, POOL)) do -- popped
    redis.call('SREM', SHOWN, url)
    if members[url] and members[url] ~= 'gone' then takeForeign(url, true) end
  end
  for _, url in ipairs(redis.call('SDIFF', POOL, SHOWN)) do -- added
    local l = members[url] and lease(foreign(url))
    if l and not redis.call('HGET', CLAIMS, url) then drop(foreign(url), l) end -- given back
  end
end

-- show leaves those upstreams in the pool's set that have room, and no others
-- of ours. What others took is shown when they have given it back.
local function show()
  local is, shown, quiet = set(POOL), set(SHOWN), settling() > 0
  for url, source in pairs(members) do
    local want = source ~= 'gone' and not quiet and loadOf(url) < capacity and restOf(url) == 0
      and (loadOf(url) == 0 or redis.call('HEXISTS', LEASES, foreign(url)) == 0)
    if want then
      if not is[url] then redis.call('SADD', POOL, url) end
      if not shown[url] then redis.call('SADD', SHOWN, url) end
    else
      if is[url] then redis.call('SREM', POOL, url) end
      if shown[url] then redis.call('SREM', SHOWN, url) end
    end
    shown[url] = nil
  end
  for url in pairs(shown) do -- those that have left
    redis.call('SREM', POOL, url)
    redis.call('SREM', SHOWN, url)
  end
end

reap()
watch()
