-- ARGV[5] is how many claims follow, each an owner of another program and the
-- URL that it says it has; then three for each lease: token, owner, URL. It
-- returns how each lease stands, then the owners whose copies are of no more
-- use, and what in the pool's set is none of ours.
local claimed, stale = {}, {}
local at = 6
for _ = 1, tonumber(ARGV[5]) do
  claimed[ARGV[at + 1]] = ARGV[at]
  at = at + 2
end
local claims = hash(CLAIMS)
for url, owner in pairs(claimed) do
  if members[url] and members[url] ~= 'gone' then
    if claims[url] ~= owner then -- it is new
      redis.call('HSET', CLAIMS, url, owner)
      takeForeign(url, false)
    elseif redis.call('HEXISTS', LEASES, foreign(url)) == 0 then -- it has run out
      redis.call('HDEL', CLAIMS, url)
      stale[#stale + 1] = owner
    end
  end
end
for url in pairs(claims) do
  if not claimed[url] then
    redis.call('HDEL', CLAIMS, url)
    local l = lease(foreign(url))
    if l and not l.popped then drop(foreign(url), l) end -- nobody says so any more
  end
end
watch() -- anew, with the claims

local standings = {}
for i = at, #ARGV, 3 do
  local token, owner, url = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local l = lease(token)
  if not l and settling() > 0 then -- lost with the run that gave it
    l = { o = owner, u = url, s = wall, h = {} }
    addLoad(url, 1)
    if not members[url] then
      members[url] = 'gone'
      redis.call('HSET', MEMBERS, url, 'gone')
    end
    if redis.call('HEXISTS', OWNERS, owner) == 0 then redis.call('HSET', OWNERS, owner, token) end
  end
  if l then
    redis.call('SADD', COPIES, owner) -- it is copied after this
    l.h[process] = now + leaseTime
    l.r = meta.run
    keep(token, l)
    local state = 0
    if l.x then state = 1 elseif members[l.u] == 'gone' then state = 2 end
    standings[#standings + 1] = { state, (restOf(l.u)) }
  else
    standings[#standings + 1] = { 3, 0 }
  end
end

for _, owner in ipairs(redis.call('SMEMBERS', COPIES)) do
  if redis.call('HEXISTS', OWNERS, owner) == 0 then stale[#stale + 1] = owner end
end
show()
local others = {}
for _, url in ipairs(redis.call('SDIFF', POOL, SHOWN)) do
  if not members[url] then others[#others + 1] = url end
end
return { standings, stale, others }
