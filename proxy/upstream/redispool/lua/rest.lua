-- ARGV[5] is the URL, then reason, base and limit in ms, and up to how much
-- more than its time it rests. It returns how long it rests now.
local url, reason, base, limit, jitter = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
if not members[url] then return base end
local time, failures = restOf(url)
if time > 0 then
  time = math.max(time, base)
else
  time = base
  for _ = 1, failures do
    if time >= limit then break end
    time = time * 2
  end
  time = math.min(time, limit)
  time = time + math.floor(time * jitter)
  failures = failures + 1
end
rests[url] = (now + time) .. '|' .. failures .. '|' .. reason
redis.call('HSET', RESTS, url, rests[url])
show()
return time
