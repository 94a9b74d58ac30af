package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

func TestCredentialsAreOfAnyBytes(t *testing.T) {
	t.Parallel()
	c := read(t, "/etc/shop", shop+`
upstreams:
  eu:
    proxies:
      - "http://user:p%40%25%3A%2F%FF@10.0.0.1:3128"
      - {url: "socks5://10.0.0.2", username: "u:x%41", password: "p@%/ ü"}
      - {url: "http://10.0.0.3:3128", username: "customer-zone-eu", password: "${CRAWLER_PASSWORD}"}
`)
	for i, want := range []string{
		"http://user:p%40%25%3A%2F%FF@10.0.0.1:3128",
		"socks5://u%3Ax%2541:p%40%25%2F%20%C3%BC@10.0.0.2:1080",
		"http://customer-zone-eu:hunter2@10.0.0.3:3128",
	} {
		if got := c.Upstreams["eu"].Proxies[i].Upstream.URL(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestASiteLeavesByItsPoolElseByThatOfAll(t *testing.T) {
	t.Parallel()
	c := read(t, "/etc/shop", `
upstream: eu
sites:
  - {name: shop, hosts: [shop.test]}
  - {name: books, hosts: [books.test], upstream: us, affinity: session}
  - {name: open, hosts: [open.test], upstream: direct, login: {request: {path: /login}, logged_out: {redirect: "*/login*"}}}
upstreams:
  eu: {proxies: ["http://10.0.0.1:3128"], capacity: 3, max_age: 1h, ban: {status: [403]}}
  us: {proxies: []}
`)
	for i, want := range []string{"eu", "us", Direct} {
		if got := c.Sites[i].Upstream; got != want {
			t.Errorf("site %s leaves by %s, want %s", c.Sites[i].Name, got, want)
		}
	}
	for i, want := range []Affinity{ByWorker, BySession, BySession} { // the last has a login
		if got := c.Sites[i].Affinity; got != want {
			t.Errorf("site %s: affinity %s, want %s", c.Sites[i].Name, got, want)
		}
	}
	u, err := upstream.Parse("http://10.0.0.1:3128")
	if err != nil {
		t.Fatal(err)
	}
	want := Pool{
		Proxies:  []Proxy{{URL: "http://10.0.0.1:3128", Upstream: u}},
		Capacity: 3, Idle: 30 * time.Second, MaxAge: time.Hour, Wait: 10 * time.Second,
		Check: Check{Every: time.Minute},
		Ban:   Ban{Status: []int{403}, After: 3, For: 10 * time.Minute},
	}
	if got := c.Upstreams["eu"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
