-- KEYS: workers. ARGV: a use, and what the keys of private jars begin with.
cut(KEYS[1], ARGV[1], ARGV[2])
return {time[1], time[2], 1}
