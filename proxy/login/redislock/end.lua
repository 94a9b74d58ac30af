-- Gives a turn back, with what came of it; after another was granted, not.
-- KEYS: the lock, its state, the turn. ARGV: holder, fence, then of a login that
-- succeeded how long its answer is kept in ms, status, version, location, type,
-- body; of one that did not 0, the rest in ms, why,
-- whether it is a failure.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
if redis.call('HGET', KEYS[3], 'holder') ~= ARGV[1] or redis.call('HGET', KEYS[3], 'fence') ~= ARGV[2] then
  return 0
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('HDEL', KEYS[3], 'holder', 'until', 'since', 'kept', 'status', 'version', 'location', 'type', 'body', 'rest', 'why')
if ARGV[3] == '0' then
  redis.call('HINCRBY', KEYS[3], 'failures', ARGV[6])
  redis.call('HSET', KEYS[3], 'rest', string.format('%.0f', now + tonumber(ARGV[4])), 'why', ARGV[5])
  return 1
end
redis.call('HDEL', KEYS[3], 'failures')
redis.call('HSET', KEYS[3], 'kept', string.format('%.0f', now + tonumber(ARGV[3])), 'status', ARGV[4], 'version', ARGV[5],
  'location', ARGV[6], 'type', ARGV[7], 'body', ARGV[8])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
return 1
