-- KEYS: private jar, state of its session, workers. ARGV: token of the jar that
-- this was made from, token that it gets, floor of its session then, use, end of
-- the jar and of the list in ms, worker, how many there may be, what their keys
-- begin with, and then arguments of HSET. It tells which workers made room.
local token = redis.call('HGET', KEYS[1], 'token') or ''
if token ~= ARGV[1] and token ~= ARGV[2] or (redis.call('HGET', KEYS[2], 'floor') or '') ~= ARGV[3] then
  return {time[1], time[2], 0}
end
local gone = {}
local most = tonumber(ARGV[8])
if not redis.call('ZSCORE', KEYS[3], ARGV[7]) and redis.call('ZCARD', KEYS[3]) >= most then
  for _, worker in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    if redis.call('EXISTS', ARGV[9] .. worker) == 0 then redis.call('ZREM', KEYS[3], worker) end
  end
  local over = redis.call('ZCARD', KEYS[3]) - most
  if over >= 0 then
    for _, worker in ipairs(redis.call('ZRANGE', KEYS[3], 0, over)) do
      redis.call('UNLINK', ARGV[9] .. worker)
      redis.call('ZREM', KEYS[3], worker)
      gone[#gone + 1] = worker
    end
  end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 10))
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
redis.call('ZADD', KEYS[3], ARGV[4], ARGV[7])
keep(KEYS[3], ARGV[6])
return {time[1], time[2], 1, gone}
