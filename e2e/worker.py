"""A worker that shares its session by one plain hash, as it was written before
there was a proxy."""

import json
import sys
import time

import redis


class SessionStore:
    def __init__(self, url):
        self.redis = redis.Redis.from_url(url, decode_responses=True)

    def load(self, site):
        return self.redis.hgetall(f"session:cookies:{site}")

    def save(self, site, cookies, ttl=1800):
        key = f"session:cookies:{site}"
        self.redis.hset(key, mapping=cookies)
        self.redis.expire(key, ttl)

    def forget(self, site, name):
        self.redis.hdel(f"session:cookies:{site}", name)


def main(url, command, site, *args):
    store = SessionStore(url)
    if command == "load":
        print(json.dumps(store.load(site)))
    elif command == "save":
        store.save(site, dict(a.split("=", 1) for a in args))
    elif command == "forget":
        store.forget(site, args[0])
    elif command == "work":  # NAME SECONDS: it logs in again and again, and saves all that it has
        end, n = time.monotonic() + float(args[1]), 0
        while time.monotonic() < end:
            n += 1
            cookies = store.load(site)
            cookies[args[0]] = str(n)
            store.save(site, cookies)
            time.sleep(0.05)
        print(n)


main(*sys.argv[1:])
