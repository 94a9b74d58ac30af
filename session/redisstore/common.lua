-- What all scripts share.

local time = redis.call('TIME')

-- digest tells two states of a hash apart. The order in which a server sorts
-- names is its own (LC_COLLATE), so digests are made here and nowhere else.
local function digest(flat)
  if #flat == 0 then return '' end
  local names, values = {}, {}
  for i = 1, #flat, 2 do
    names[#names + 1] = flat[i]
    values[flat[i]] = flat[i + 1]
  end
  table.sort(names)
  local parts = {}
  for _, name in ipairs(names) do
    local value = values[name]
    parts[#parts + 1] = #name .. ':' .. name .. #value .. ':' .. value
  end
  return redis.sha1hex(table.concat(parts))
end

-- whole is all there is of a session. KEYS: mirror, jar, state.
local function whole(mirror)
  return {time[1], time[2], 0, redis.call('PTTL', KEYS[1]), digest(mirror), redis.call('HGETALL', KEYS[3]), redis.call('HGETALL', KEYS[2]), mirror}
end

-- keep moves a key's end to ms, if that is later.
local function keep(key, ms)
  local left = redis.call('PTTL', key)
  if left == -1 or left >= 0 and left + time[1] * 1000 < tonumber(ms) then
    redis.call('PEXPIREAT', key, ms)
  end
end

-- cut removes the private jars that were last used before.
local function cut(workers, before, prefix)
  for _, worker in ipairs(redis.call('ZRANGEBYSCORE', workers, '-inf', '(' .. before)) do
    redis.call('UNLINK', prefix .. worker)
  end
  redis.call('ZREMRANGEBYSCORE', workers, '-inf', '(' .. before)
end
