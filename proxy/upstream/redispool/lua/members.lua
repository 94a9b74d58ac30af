-- ARGV[5] says what becomes of ARGV[6]: an upstream, a lease or an owner.
local op, what = ARGV[5], ARGV[6]
local done = 0
if op == 'add' then
  redis.call('SREM', REMOVED, what)
  if members[what] ~= 'config' then
    members[what] = 'added'
    redis.call('HSET', MEMBERS, what, 'added')
  end
elseif op == 'discover' then -- ARGV[7] is how it is spelt in the set
  if ARGV[7] ~= what then redis.call('SREM', POOL, ARGV[7]) end
  if (not members[what] or members[what] == 'gone') and redis.call('SISMEMBER', REMOVED, what) == 0 then
    members[what] = 'discovered'
    redis.call('HSET', MEMBERS, what, 'discovered')
  end
elseif op == 'remove' and members[what] and members[what] ~= 'gone' then
  redis.call('SADD', REMOVED, what)
  members[what] = 'gone'
  redis.call('HSET', MEMBERS, what, 'gone')
  redis.call('SREM', POOL, what)
  addLoad(what, 0)
  done = 1
elseif op == 'recover' then
  redis.call('HDEL', RESTS, what)
elseif op == 'uncopied' then -- an owner; it may have another lease already
  if redis.call('HEXISTS', OWNERS, what) == 0 then redis.call('SREM', COPIES, what) end
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
