-- Asks for a turn.
-- KEYS: the lock, its state, the turn. ARGV: holder, waited and overdue in ms,
-- guest, force, life in ms, the mark of our holders.
-- Returns the login.State and its parts, all of them strings, and times as ms from
-- now: the proxy's clock is another.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local holder, waited, overdue, life, mark = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[6]), ARGV[7]
local guest, force = ARGV[4] == '1', ARGV[5] == '1'
local day = 25 * 3600 * 1000 -- longer than any rest

local function of(key, field)
  return tonumber(redis.call('HGET', key, field) or 0) or 0
end

if not force and of(KEYS[3], 'kept') > now and of(KEYS[3], 'version') > of(KEYS[2], 'void') then
  local a = redis.call('HMGET', KEYS[3], 'status', 'version', 'location', 'type', 'body')
  return {'2', a[1] or '', a[2] or '', a[3] or '', a[4] or '', a[5] or ''}
end
if redis.call('HEXISTS', KEYS[3], 'holder') == 1 and of(KEYS[3], 'until') > now
    and (overdue == 0 or now - of(KEYS[3], 'since') < overdue) then
  return {'0'}
end
if not force and of(KEYS[3], 'rest') > now then
  local r = redis.call('HMGET', KEYS[3], 'failures', 'why', 'cause')
  return {'3', r[1] or '0', string.format('%.0f', of(KEYS[3], 'rest') - now), r[2] or '', r[3] or '0'}
end

local lock = redis.call('GET', KEYS[1])
if not lock then
  redis.call('SET', KEYS[1], holder, 'PX', life)
  redis.call('HDEL', KEYS[2], 'guest', 'guest_ends')
elseif string.sub(lock, 1, #mark) ~= mark then
  -- A worker of another program logs in, perhaps through us: one request may be
  -- its own. It may take the same value each time, so its lock is known by the
  -- end of its life, too.
  local left = redis.call('PTTL', KEYS[1])
  local ends = left < 0 and 0 or now + left
  local seen = redis.call('HGET', KEYS[2], 'guest') == lock and math.abs(of(KEYS[2], 'guest_ends') - ends) < 5
  if guest and not seen then
    redis.call('HSET', KEYS[2], 'guest', lock, 'guest_ends', string.format('%.0f', ends))
  elseif overdue == 0 or waited < overdue then
    return {'0'}
  end
end

local fence = redis.call('HINCRBY', KEYS[2], 'fence', 1)
redis.call('HSET', KEYS[3], 'holder', holder, 'fence', fence, 'since', string.format('%.0f', now), 'until', string.format('%.0f', now + life))
redis.call('PEXPIRE', KEYS[2], 2 * day)
redis.call('PEXPIRE', KEYS[3], day)
local granted = {'1', tostring(fence), string.format('%.0f', of(KEYS[3], 'failures')), string.format('%.0f', of(KEYS[3], 'hindered'))}
for at, ends in string.gmatch(redis.call('HGET', KEYS[3], 'won') or '', '(%d+)-(%d+)') do
  if tonumber(ends) > now then granted[#granted + 1] = string.format('%.0f', now - tonumber(at)) end
end
return granted
