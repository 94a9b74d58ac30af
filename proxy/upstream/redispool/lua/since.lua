-- KEYS[1] says since when Redis is known to have lost nothing of what proxies
-- keep in it, and the run that it was new in. FLUSHALL takes that key, and
-- leaves it in Redis' cache that this script has run: so an empty Redis that
-- does not know the script either has never been used in this run.
-- ARGV[1] is 'first' where it does not, ARGV[2] 'new' where no proxy can have
-- used another run either. It returns for how many ms that is known, and 1
-- where none can hold a lease that this run does not know.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local since, newIn = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%x*)$')
if not since then
  since, newIn = now, ''
  if ARGV[1] == 'first' then
    since = 0
    if ARGV[2] == 'new' then newIn = run end
  end
  redis.call('SET', KEYS[1], since .. ' ' .. newIn)
end
return { now - since, newIn == run and 1 or 0 }
