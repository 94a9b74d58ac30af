-- KEYS: mirror, jar, state. ARGV: token and digest that the caller knows, '?'
-- for none.
local mirror = redis.call('HGETALL', KEYS[1])
if (redis.call('HGET', KEYS[3], 'token') or '') == ARGV[1] and digest(mirror) == ARGV[2] then
  local life = redis.call('HMGET', KEYS[3], 'used', 'ends')
  return {time[1], time[2], 1, redis.call('PTTL', KEYS[1]), life[1] or '0', life[2] or '0'}
end
return whole(mirror)
