-- One proxy's claim on the plan's threads.
-- KEYS: leases: thread -> when it comes back (ms); queue: thread -> its turn;
--       waiting: thread -> when its place is lost; proxies; last turn given.
-- ARGV: proxy, limit, life of a lease, life of a place (ms), number of open
--       threads, number of those over, then the IDs: open, over, waiting.
local leases, queue, waiting, proxies, last = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local limit, lease, wait = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local open, over = tonumber(ARGV[5]), tonumber(ARGV[6])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)
redis.call('ZREMRANGEBYSCORE', proxies, '-inf', now)
for _, id in ipairs(redis.call('ZRANGEBYSCORE', waiting, '-inf', now)) do
  redis.call('ZREM', waiting, id)
  redis.call('ZREM', queue, id)
end

redis.call('ZADD', proxies, now + 60000, ARGV[1])
for i = 7, 6 + open do redis.call('ZADD', leases, now + lease, ARGV[i]) end
for i = 7 + open, 6 + open + over do
  redis.call('ZREM', leases, ARGV[i])
  redis.call('ZREM', queue, ARGV[i])
  redis.call('ZREM', waiting, ARGV[i])
end
local granted, mine = {}, {}
for i = 7 + open + over, #ARGV do
  local id = ARGV[i]
  if redis.call('ZSCORE', leases, id) then -- the answer that said so was lost
    granted[#granted + 1] = id
  else
    mine[id] = true
    if not redis.call('ZSCORE', queue, id) then redis.call('ZADD', queue, redis.call('INCR', last), id) end
    redis.call('ZADD', waiting, now + wait, id)
  end
end

local room = limit - redis.call('ZCARD', leases)
if room > 0 then
  for _, id in ipairs(redis.call('ZRANGE', queue, 0, room - 1)) do
    if mine[id] then -- the others in front come for theirs
      granted[#granted + 1] = id
      redis.call('ZADD', leases, now + lease, id)
      redis.call('ZREM', queue, id)
      redis.call('ZREM', waiting, id)
    end
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 600000) end
return {redis.call('ZCARD', leases), redis.call('ZCARD', proxies), unpack(granted)}
