local list = {}
local at = {}
for url, source in pairs(members) do
  if source ~= 'gone' then
    local rests, failures, reason = restOf(url)
    local entry = { url, source, capacity, failures, reason, rests, redis.call('HEXISTS', LEASES, foreign(url)), {} }
    list[#list + 1] = entry
    at[url] = entry[8]
  end
end
for token, raw in pairs(hash(LEASES)) do
  local l = cjson.decode(raw)
  if at[l.u] and l.o ~= '' then table.insert(at[l.u], { token, l.o, l.s }) end
end
return list
