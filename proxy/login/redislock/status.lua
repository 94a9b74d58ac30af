-- Says how a session stands, in strings; the rest is told in ms from now, since the
-- proxy's clock is another.
-- KEYS: the lock's state, the turn.
local shown = redis.call('HMGET', KEYS[1], 'shown', 'verdict', 'rule', 'seen')
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local rests = redis.call('HMGET', KEYS[2], 'failures', 'rest', 'why', 'cause')
return {shown[1] or '0', shown[2] or '0', shown[3] or '', shown[4] or '0', rests[1] or '0', string.format('%.0f', math.max(0, (tonumber(rests[2] or 0) or 0) - now)), rests[3] or '', rests[4] or '0'}
