-- ARGV[5] is the queue time in ms; then five for each ask: owner, token, not,
-- only, strict. It returns five for each: token, url, rest, failures, and why
-- there is none with when to ask again.
local answers = {}

local function count()
  local n, why, after = 0, 'empty', 0
  if settling() > 0 then return 0, 'settling', settling() end
  for url, source in pairs(members) do
    if source ~= 'gone' then
      local room, rests = capacity - loadOf(url), restOf(url)
      if rests == 0 then
        n, why = n + math.max(0, room), 'full'
      elseif room > 0 then
        if why == 'empty' then why = 'resting' end
        if after == 0 or rests < after then after = rests end
      end
    end
  end
  return n, why, after
end

local counted -- until a lease is given

-- free returns how many places there are, else why and when to ask again.
local function free()
  if not counted then counted = { count() } end
  return unpack(counted)
end

local function choose(preferred)
  local best, bestLoad, bestUsed
  for url, source in pairs(members) do
    if source ~= 'gone' and loadOf(url) < capacity and restOf(url) == 0 then
      if url == preferred then return url end
      local l, used = loadOf(url), tonumber(redis.call('ZSCORE', USED, url) or 0)
      if not best or l < bestLoad or l == bestLoad and (used < bestUsed or used == bestUsed and url < best) then
        best, bestLoad, bestUsed = url, l, used
      end
    end
  end
  return best
end

local function answer(token, url)
  local rests, failures = restOf(url)
  answers[#answers + 1] = { token, url, rests, failures, '', 0 }
end

local function none(why, after) answers[#answers + 1] = { '', '', 0, 0, why, after } end

local function unqueue(owner)
  redis.call('ZREM', QUEUE, owner)
  redis.call('ZREM', SEEN, owner)
end

-- has answers with the lease that the owner has. One that nobody has renewed in
-- this run of Redis may have been given back, and its place to another, after
-- what the run began with was written.
local function has(owner, notThat, strict)
  local token = redis.call('HGET', OWNERS, owner)
  if not token then return false end
  local l = lease(token)
  if l.r ~= meta.run then return false end
  local lost = members[l.u] == 'gone' or restOf(l.u) > 0
  if token == notThat or l.x or lost and not strict then
    redis.call('HDEL', OWNERS, owner) -- the lease ends by itself
    return false
  end
  l.h[process] = now + leaseTime
  keep(token, l)
  unqueue(owner)
  answer(token, l.u)
  return true
end

local function give(owner, token, url, remember)
  local n = redis.call('HINCRBY', META, 'grants', 1)
  redis.call('ZADD', USED, n, url)
  addLoad(url, 1)
  counted = nil
  keep(token, { o = owner, u = url, s = wall, r = meta.run, h = { [process] = now + leaseTime } })
  redis.call('HSET', OWNERS, owner, token)
  if remember then
    redis.call('SADD', COPIES, owner)
    if redis.call('HLEN', LAST) >= 16384 then redis.call('DEL', LAST) end
    redis.call('HSET', LAST, owner, url)
  end
  answer(token, url)
end

for i = 6, #ARGV, 5 do
  local owner, token, notThat, only, strict = unpack(ARGV, i, i + 4)
  if only ~= '' then
    local member = members[only] and members[only] ~= 'gone'
    if settling() > 0 then
      none('settling', settling())
    elseif member and loadOf(only) < capacity then
      give(owner, token, only, false)
    else
      none('full', 0)
    end
  elseif not has(owner, notThat, strict == '1') then
    if not redis.call('ZSCORE', QUEUE, owner) then
      redis.call('ZADD', QUEUE, redis.call('HINCRBY', META, 'tickets', 1), owner)
    end
    redis.call('ZADD', SEEN, now + tonumber(ARGV[5]), owner)
    local n, why, after = free()
    if redis.call('ZRANK', QUEUE, owner) < n then
      unqueue(owner)
      give(owner, token, choose(redis.call('HGET', LAST, owner)), true)
    else
      none(why, after)
    end
  end
end
show()
return answers
