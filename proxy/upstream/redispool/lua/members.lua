-- ARGV[5] says what becomes of ARGV[6]: an upstream, a lease or an owner; of
-- owners, and of upstreams that are discovered, there may be more.
local op, what = ARGV[5], ARGV[6]
local done = 0
if op == 'add' then
  redis.call('SREM', REMOVED, what)
  if members[what] ~= 'config' then
    members[what] = 'added'
    redis.call('HSET', MEMBERS, what, 'added')
  end
elseif op == 'discover' then -- behind each stands how it is spelt in the set
  for i = 6, #ARGV, 2 do
    local url, spelt = ARGV[i], ARGV[i + 1]
    if spelt ~= url then redis.call('SREM', POOL, spelt) end
    if (not members[url] or members[url] == 'gone') and redis.call('SISMEMBER', REMOVED, url) == 0 then
      members[url] = 'discovered'
      redis.call('HSET', MEMBERS, url, 'discovered')
    end
  end
elseif op == 'remove' and members[what] and members[what] ~= 'gone' then
  redis.call('SADD', REMOVED, what)
  members[what] = 'gone'
  redis.call('HSET', MEMBERS, what, 'gone')
  redis.call('SREM', POOL, what)
  addLoad(what, 0)
  done = 1
elseif op == 'recover' then
  recovered(what)
elseif op == 'uncopied' then -- they may have other leases already
  for i = 6, #ARGV do
    if redis.call('HEXISTS', OWNERS, ARGV[i]) == 0 then redis.call('SREM', COPIES, ARGV[i]) end
  end
elseif op == 'end' then
  local l = lease(what)
  if l then
    l.x = true
    keep(what, l)
    if redis.call('HGET', LAST, l.o) == l.u then redis.call('HDEL', LAST, l.o) end
  end
end
show()
return done
