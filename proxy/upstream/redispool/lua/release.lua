-- Two for each lease: token, and 1 where the owner is to forget the upstream.
-- It returns the owners that have no lease any more.
local over = {}
for i = 5, #ARGV, 2 do
  local token = ARGV[i]
  local l = lease(token)
  if l and l.h[process] then
    if ARGV[i + 1] == '1' and redis.call('HGET', LAST, l.o) == l.u then redis.call('HDEL', LAST, l.o) end
    l.h[process] = nil
    local held = false
    for _, deadline in pairs(l.h) do held = held or deadline > now end
    if held then
      keep(token, l)
    else
      drop(token, l)
      if redis.call('HEXISTS', OWNERS, l.o) == 0 then over[#over + 1] = l.o end
    end
  end
end
show()
return over
