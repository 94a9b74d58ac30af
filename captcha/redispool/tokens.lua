-- One operation on the tokens of one key.
-- KEYS: the public list; due: digest -> when the token is too old (ms);
--       spent: digest -> until when it is remembered that it came out; need;
--       prefetched: digests of those that were solved when a page was shown.
-- ARGV: operation, token, its life, life of a token that others pushed, memory
--       of spent ones, memory of a need (all ms), most tokens, longest token,
--       1 where it was prefetched.
local list, due, spent, need, prefetched = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local op, token, life = ARGV[1], ARGV[2], tonumber(ARGV[3])
local foreign, memory, needed = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local most, longest = tonumber(ARGV[7]), tonumber(ARGV[8])

-- How long nobody has touched the list: what it holds is that old at least.
-- Absent under maxmemory-policy *lfu, and then it counts as new. Asked first,
-- since we touch it.
local idle = redis.pcall('OBJECT', 'IDLETIME', list)
idle = type(idle) == 'number' and idle * 1000 or 0

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', spent, '-inf', now)
redis.call('LTRIM', list, -most, -1)

-- The time that is left of a token in the list; 0: it is not to be used.
local function left(value, digest)
  if #value == 0 or #value > longest or string.find(value, '[^!-~]') then return 0 end
  if redis.call('ZSCORE', spent, digest) then return 0 end
  local ends = redis.call('ZSCORE', due, digest)
  ends = ends and tonumber(ends) or now - idle + foreign
  return math.max(ends - now, 0)
end

-- The list and what is known of it live as long as the longest-lived token.
local function settle()
  redis.call('ZREMRANGEBYSCORE', due, '-inf', now)
  local n = redis.call('LLEN', list)
  local last = redis.call('ZRANGE', due, -1, -1, 'WITHSCORES')
  local rest = last[2] and tonumber(last[2]) - now or 0
  if n > redis.call('ZCARD', due) then rest = math.max(rest, foreign) end -- some are not seen yet
  if n > 0 and rest > 0 then redis.call('PEXPIRE', list, rest) end
  if rest > 0 then redis.call('PEXPIRE', due, rest) end
  redis.call('PEXPIRE', spent, memory)
end

if op == 'pop' then
  redis.call('SET', need, 1, 'PX', needed)
  while true do
    local value = redis.call('LPOP', list)
    if not value then break end
    local digest = redis.sha1hex(value)
    local rest = left(value, digest)
    redis.call('ZREM', due, digest)
    if rest > 0 then
      redis.call('ZADD', spent, now + memory, digest)
      settle()
      return {value, rest, redis.call('SREM', prefetched, digest)}
    end
  end
  settle()
  return {}
end

if op == 'push' or op == 'return' then
  local digest = redis.sha1hex(token)
  if op == 'push' and redis.call('ZSCORE', spent, digest) then return {} end
  redis.call('ZREM', spent, digest)
  if life > 0 then
    if redis.call('ZSCORE', due, digest) then redis.call('LREM', list, 0, token) end
    redis.call(op == 'push' and 'RPUSH' or 'LPUSH', list, token)
    redis.call('ZADD', due, now + life, digest)
    if ARGV[9] == '1' then
      redis.call('SADD', prefetched, digest)
      redis.call('PEXPIRE', prefetched, memory)
    end
    redis.call('LTRIM', list, -most, -1)
  end
  settle()
  return {1}
end

if op == 'flush' then
  local n = redis.call('LLEN', list)
  redis.call('DEL', list, due, prefetched)
  return {n}
end

-- look
local kept, ends, seen, soonest = {}, {}, {}, 0
local values = redis.call('LRANGE', list, 0, -1)
for _, value in ipairs(values) do
  local digest = redis.sha1hex(value)
  local rest = seen[digest] and 0 or left(value, digest)
  seen[digest] = true
  if rest > 0 then
    kept[#kept + 1] = value
    ends[#ends + 1] = {now + rest, digest}
    if soonest == 0 or rest < soonest then soonest = rest end
  end
end
if #kept < #values then
  redis.call('DEL', list)
  for _, value in ipairs(kept) do redis.call('RPUSH', list, value) end
end
redis.call('DEL', due)
for _, e in ipairs(ends) do redis.call('ZADD', due, e[1], e[2]) end
settle()
return {#kept, soonest, redis.call('EXISTS', need)}
