-- ARGV[4] is 'again' where this process has declared the pool before, 'new'
-- where no proxy can hold a lease yet, else for how many ms Redis is known to
-- have lost nothing. ARGV[5] is the capacity; the upstreams follow.
redis.call('HSET', META, 'capacity', ARGV[5])
capacity = tonumber(ARGV[5])
local want = {}
for i = 6, #ARGV do want[ARGV[i]] = true end
for url, source in pairs(members) do
  if source == 'config' and not want[url] then
    members[url] = 'gone'
    redis.call('HSET', MEMBERS, url, 'gone')
    addLoad(url, 0)
  end
end
for url in pairs(want) do
  if members[url] ~= 'config' and redis.call('SISMEMBER', REMOVED, url) == 0 then
    members[url] = 'config'
    redis.call('HSET', MEMBERS, url, 'config')
  end
end
show()
return {}
