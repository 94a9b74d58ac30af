-- Remembers what a reply has shown, unless that is known of a later version.
-- KEYS: the lock's state. ARGV: version, verdict, rule, time in ms.
if tonumber(ARGV[1]) >= (tonumber(redis.call('HGET', KEYS[1], 'shown') or 0) or 0) then
  redis.call('HSET', KEYS[1], 'shown', ARGV[1], 'verdict', ARGV[2], 'rule', ARGV[3], 'seen', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], 50 * 3600 * 1000)
end
return 1
