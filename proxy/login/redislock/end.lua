-- Gives a turn back, with what came of it; after another was granted, not.
-- KEYS: the lock, its state, the turn. ARGV: holder, fence, then of a login that
-- succeeded how long its answer is kept in ms, status, version, location, type,
-- body, how long it counts in ms, how many such are remembered; of one that did
-- not 0, the rest in ms, why, the field that counts it ('' none), its cause.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
if redis.call('HGET', KEYS[3], 'holder') ~= ARGV[1] or redis.call('HGET', KEYS[3], 'fence') ~= ARGV[2] then
  return 0
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('HDEL', KEYS[3], 'holder', 'until', 'since', 'kept', 'status', 'version', 'location', 'type', 'body', 'rest', 'why', 'cause')
if ARGV[3] == '0' then
  if ARGV[6] ~= '' then redis.call('HINCRBY', KEYS[3], ARGV[6], 1) end
  redis.call('HSET', KEYS[3], 'rest', string.format('%.0f', now + tonumber(ARGV[4])), 'why', ARGV[5], 'cause', ARGV[7])
  return 1
end
redis.call('HDEL', KEYS[3], 'failures', 'hindered')
redis.call('HSET', KEYS[3], 'kept', string.format('%.0f', now + tonumber(ARGV[3])), 'status', ARGV[4], 'version', ARGV[5],
  'location', ARGV[6], 'type', ARGV[7], 'body', ARGV[8])
local counts = tonumber(ARGV[9])
if counts > 0 then
  local won = {}
  for at, ends in string.gmatch(redis.call('HGET', KEYS[3], 'won') or '', '(%d+)-(%d+)') do
    won[#won + 1] = at .. '-' .. ends
  end
  won[#won + 1] = string.format('%.0f-%.0f', now, now + counts)
  redis.call('HSET', KEYS[3], 'won', table.concat(won, ' ', math.max(1, #won + 1 - tonumber(ARGV[10]))))
end
redis.call('PEXPIRE', KEYS[3], math.max(ARGV[3], counts))
return 1
