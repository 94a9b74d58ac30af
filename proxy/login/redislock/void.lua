-- Remembers the version of the jar that was seen to be logged out.
-- KEYS: the lock's state. ARGV: version.
if tonumber(ARGV[1]) > (tonumber(redis.call('HGET', KEYS[1], 'void') or 0) or 0) then
  redis.call('HSET', KEYS[1], 'void', ARGV[1])
  redis.call('PEXPIRE', KEYS[1], 50 * 3600 * 1000)
end
return 1
