-- KEYS: mirror, jar, state, workers. ARGV: token and digest of the state that
-- this was made from, the mirror's end then, its end now and that of its
-- companions in ms, the use before which private jars go ('' for none), what
-- their keys begin with, and then arguments of HDEL and HSET, each list with
-- its length before it: the mirror's, the jar's, and the state's to set.
local mirror = redis.call('HGETALL', KEYS[1])
local ends = redis.call('PTTL', KEYS[1]) + time[1] * 1000
if (redis.call('HGET', KEYS[3], 'token') or '') ~= ARGV[1] or digest(mirror) ~= ARGV[2]
  -- Somebody made the life longer: that is to be looked at first.
  or #mirror > 0 and ends > math.max(ARGV[3], ARGV[4]) + 2000 then
  return whole(mirror)
end
if ARGV[1] == '' then
  redis.call('DEL', KEYS[2], KEYS[3]) -- one may be left where the other was evicted
end

local at = 8
local function each(command, key)
  local last = at + tonumber(ARGV[at])
  for from = at + 1, last, 1000 do -- Lua's stack is small
    redis.call(command, key, unpack(ARGV, from, math.min(last, from + 999)))
  end
  at = last + 1
end
each('HDEL', KEYS[1])
each('HSET', KEYS[1])
each('HDEL', KEYS[2])
each('HSET', KEYS[2])
each('HSET', KEYS[3])
redis.call('PEXPIREAT', KEYS[1], ARGV[4])
redis.call('PEXPIREAT', KEYS[2], ARGV[5])
redis.call('PEXPIREAT', KEYS[3], ARGV[5])

if ARGV[6] ~= '' then cut(KEYS[4], ARGV[6], ARGV[7]) end
return {time[1], time[2], 1, digest(redis.call('HGETALL', KEYS[1]))}
