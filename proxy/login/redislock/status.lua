-- Says how a session stands, in strings.
-- KEYS: the lock's state, the turn.
local shown = redis.call('HMGET', KEYS[1], 'shown', 'verdict', 'rule', 'seen')
local rests = redis.call('HMGET', KEYS[2], 'failures', 'rest', 'why', 'cause')
return {shown[1] or '0', shown[2] or '0', shown[3] or '', shown[4] or '0', rests[1] or '0', rests[2] or '0', rests[3] or '', rests[4] or '0'}
