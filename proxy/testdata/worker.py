"""A worker as it was before there was a proxy: it takes the site's lock, logs in, and lets go."""
import re
import sys
import time
import urllib.parse
import urllib.request

import redis

socket, lock, site = sys.argv[1:]
r = redis.Redis(unix_socket_path=socket)
while not r.set(lock, "worker", nx=True, ex=300):
    time.sleep(0.05)
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the proxy and its CA come from the environment
page = opener.open(site + "/login").read().decode()
token = re.search(r'name="token" value="([^"]*)"', page)
print("form" if token else page, flush=True)
sys.stdin.readline()  # the test looks at who waits
form = urllib.parse.urlencode({"user": "alice", "password": "wonderland", "token": token.group(1)})
print(opener.open(site + "/login", form.encode()).read().decode(), flush=True)
r.delete(lock)
