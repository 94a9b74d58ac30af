-- Gives a turn another life, if it is still the last one. Returns whether it is.
-- KEYS: the lock, its state, the turn. ARGV: holder, fence, life in ms.
if redis.call('HGET', KEYS[3], 'holder') ~= ARGV[1] or redis.call('HGET', KEYS[3], 'fence') ~= ARGV[2] then
  return 0
end
local clock = redis.call('TIME')
local life = tonumber(ARGV[3])
redis.call('HSET', KEYS[3], 'until', string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000) + life))
local lock = redis.call('GET', KEYS[1])
if not lock then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', life)
elseif lock == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], life)
end
return 1
