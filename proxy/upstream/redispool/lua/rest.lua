-- ARGV[5] is the URL, then reason, base and limit in ms, and up to how much
-- more than its time it rests. It returns how long it rests now.
local url, reason, base, limit, jitter = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
if not members[url] then return base end
local rests, failures = restOf(url)
if rests > 0 then
  rests = math.max(rests, base)
else
  rests = base
  for _ = 1, failures do
    if rests >= limit then break end
    rests = rests * 2
  end
  rests = math.min(rests, limit)
  rests = rests + math.floor(rests * jitter)
  failures = failures + 1
end
redis.call('HSET', RESTS, url, (now + rests) .. '|' .. failures .. '|' .. reason)
show()
return rests
