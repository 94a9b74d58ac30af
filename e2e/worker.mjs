// A worker that shares its session by one plain hash, as it was written before
// there was a proxy.

import Redis from 'ioredis';

class SessionStore {
  constructor(url) {
    this.redis = new Redis(url);
  }

  load(site) {
    return this.redis.hgetall(`session:cookies:${site}`);
  }

  async save(site, cookies, ttl = 1800) {
    const key = `session:cookies:${site}`;
    await this.redis.hset(key, cookies);
    await this.redis.expire(key, ttl);
  }

  forget(site, name) {
    return this.redis.hdel(`session:cookies:${site}`, name);
  }
}

const [url, command, site, ...args] = process.argv.slice(2);
const store = new SessionStore(url);
switch (command) {
  case 'load':
    console.log(JSON.stringify(await store.load(site)));
    break;
  case 'save':
    await store.save(site, Object.fromEntries(args.map((a) => [a.slice(0, a.indexOf('=')), a.slice(a.indexOf('=') + 1)])));
    break;
  case 'forget':
    await store.forget(site, args[0]);
    break;
  case 'work': { // NAME SECONDS: it logs in again and again, and saves all that it has
    const end = performance.now() + 1000 * Number(args[1]);
    let n = 0;
    while (performance.now() < end) {
      const cookies = await store.load(site);
      cookies[args[0]] = String(++n);
      await store.save(site, cookies);
      await new Promise((done) => setTimeout(done, 50));
    }
    console.log(n);
    break;
  }
}
store.redis.disconnect();
