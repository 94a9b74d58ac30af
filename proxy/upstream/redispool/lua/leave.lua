for i = 5, #ARGV do
  redis.call('ZREM', QUEUE, ARGV[i])
  redis.call('ZREM', SEEN, ARGV[i])
end
return {}
