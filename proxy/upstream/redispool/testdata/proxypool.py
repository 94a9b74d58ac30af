"""A worker of another program: python3 proxypool.py PORT SECONDS NAME URL..."""
import random
import sys
import time

import redis


class ProxyPool:
    POOL, ASSIGNED = "session:proxy_pool:eu", "session:proxy_assigned:eu"

    def __init__(self, r, proxies):
        self.r = r
        self.r.sadd(self.POOL, *proxies)

    def acquire(self, worker):
        proxy = self.r.spop(self.POOL)
        if proxy:
            self.r.hset(self.ASSIGNED, worker, proxy)
            self.r.expire(self.ASSIGNED, 600)
        return proxy

    def release(self, worker):
        proxy = self.r.hget(self.ASSIGNED, worker)
        if proxy:
            self.r.hdel(self.ASSIGNED, worker)
            self.r.sadd(self.POOL, proxy)


port, seconds, name, proxies = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
end, pops = time.monotonic() + seconds, 0
r = redis.Redis(port=port, decode_responses=True)
while time.monotonic() < end:
    pool = ProxyPool(r, proxies)  # as at the start of a worker
    for _ in range(20):
        if pool.acquire(name):
            pops += 1
            time.sleep(random.random() / 20)
            pool.release(name)
        time.sleep(random.random() / 20)
print(pops)
