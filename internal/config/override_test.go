package config

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
)

// Each key is set by its file, its variable and its flag; the later beats the
// earlier.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	const file = `
listen: [{addr: 127.0.0.1:1001}, {addr: 127.0.0.1:1002}]
admin: 127.0.0.1:1003
ops: 127.0.0.1:1004
state: file
store: {url: "redis://file:hunter1@10.0.0.1", prefix: "file:"}
undeclared: refuse
` + shop
	env := map[string]string{
		"SESSIONPROXY_LISTEN":     "127.0.0.1:2001 127.0.0.1:2002,ask",
		"SESSIONPROXY_ADMIN":      "127.0.0.1:2003",
		"SESSIONPROXY_OPS":        "127.0.0.1:2004",
		"SESSIONPROXY_STATE":      "env",
		"SESSIONPROXY_STORE":      "redis://10.0.0.2",
		"SESSIONPROXY_UNDECLARED": "tunnel",
		"REDIS_URL":               "redis://10.0.0.4:6379",
	}
	flags := Flags{Listen: []string{"127.0.0.1:3001"}, Admin: "127.0.0.1:3003", Ops: "127.0.0.1:3004", State: "flag", Store: "embedded"}
	port := func(addr string, auth Auth) Listen { return Listen{Addr: addr, Auth: auth, From: []netip.Prefix{}} }
	type settings struct {
		listen            []Listen
		admin, ops, state string
		store, prefix     string
		undeclared        Undeclared
	}
	for _, tt := range []struct {
		name  string
		env   map[string]string
		flags Flags
		want  settings
	}{
		{"the file alone", nil, Flags{}, settings{
			[]Listen{port("127.0.0.1:1001", AuthNone), port("127.0.0.1:1002", AuthNone)},
			"127.0.0.1:1003", "127.0.0.1:1004", "/etc/shop/file", "redis://file:hunter1@10.0.0.1", "file:", Refuse}},
		{"the environment over the file, lists as a whole, paths from the working directory", env, Flags{}, settings{
			[]Listen{port("127.0.0.1:2001", AuthNone), port("127.0.0.1:2002", AuthAsk)},
			"127.0.0.1:2003", "127.0.0.1:2004", "env", "redis://10.0.0.2", "session:", Tunnel}},
		{"flags over the environment", env, flags, settings{
			[]Listen{port("127.0.0.1:3001", AuthNone)},
			"127.0.0.1:3003", "127.0.0.1:3004", "flag", "embedded", "session:", Tunnel}},
		{"a flag over the file, where the environment is silent", nil, Flags{Admin: "127.0.0.1:3003"}, settings{
			[]Listen{port("127.0.0.1:1001", AuthNone), port("127.0.0.1:1002", AuthNone)},
			"127.0.0.1:3003", "127.0.0.1:1004", "/etc/shop/file", "redis://file:hunter1@10.0.0.1", "file:", Refuse}},
		{"an empty variable is not set", map[string]string{"SESSIONPROXY_ADMIN": "", "SESSIONPROXY_LISTEN": " "}, Flags{}, settings{
			[]Listen{port("127.0.0.1:1001", AuthNone), port("127.0.0.1:1002", AuthNone)},
			"127.0.0.1:1003", "127.0.0.1:1004", "/etc/shop/file", "redis://file:hunter1@10.0.0.1", "file:", Refuse}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := load(Source{File: "/etc/shop/shop.yaml", LookupEnv: lookup(tt.env), Flags: tt.flags}, []byte(file))
			if err != nil {
				t.Fatal(err)
			}
			if got := (settings{c.Listen, c.Admin, c.Ops, c.State, c.Store.URL, c.Store.Prefix, c.Undeclared}); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestAPortInOneWord(t *testing.T) {
	t.Parallel()
	c, err := load(Source{
		File:      "/etc/shop/shop.yaml",
		LookupEnv: lookup(nil),
		Flags:     Flags{Listen: []string{"10.0.0.2:8091,client=crawler,session=qa1,from=10.0.0.0/8,from=fd00::/8", "[::1]:8080,none,plain_auth"}},
	}, []byte("clients: [{name: crawler, password: hunter2}]"+shop))
	if err != nil {
		t.Fatal(err)
	}
	want := []Listen{
		{Addr: "10.0.0.2:8091", Auth: AuthNone, Client: "crawler", Session: "qa1", From: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}},
		{Addr: "[::1]:8080", Auth: AuthNone, PlainAuth: true, From: []netip.Prefix{}},
	}
	if !reflect.DeepEqual(c.Listen, want) {
		t.Errorf("%+v, want %+v", c.Listen, want)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		hosts []string
		key   string
		want  []Pattern
	}{
		{"a host and its subdomains", []string{"Shop.example.com"}, "shop.example.com",
			[]Pattern{{Host: "shop.example.com"}, {Host: "shop.example.com", Wildcard: true}}},
		{"an address has none", []string{"192.0.2.1", "[2001:DB8::1]:8443"}, "192.0.2.1",
			[]Pattern{{Host: "192.0.2.1"}, {Host: "2001:db8::1", Port: "8443"}}},
		{"hosts may overlap", []string{"shop.test:8443", "www.shop.test:8443", "shop.test:8443"}, "shop.test:8443",
			[]Pattern{
				{Host: "shop.test", Port: "8443"}, {Host: "shop.test", Port: "8443", Wildcard: true},
				{Host: "www.shop.test", Port: "8443"}, {Host: "www.shop.test", Port: "8443", Wildcard: true},
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(Source{LookupEnv: lookup(map[string]string{"REDIS_URL": "redis://10.0.0.4"}), Flags: Flags{Share: tt.hosts}})
			if err != nil {
				t.Fatal(err)
			}
			s := c.Sites[0]
			if len(c.Sites) != 1 || s.Name != tt.key || s.Key != tt.key || !reflect.DeepEqual(s.Patterns, tt.want) {
				t.Errorf("%d sites, first %s with key %s: %+v, want %s: %+v", len(c.Sites), s.Name, s.Key, s.Patterns, tt.key, tt.want)
			}
			if c.Store.URL != "embedded" || c.Listen[0].Addr != "127.0.0.1:8080" || !s.Cookies.Inject {
				t.Errorf("not the defaults: %+v", c)
			}
			if c.State != "state" {
				t.Errorf("state %s, want it in the working directory", c.State)
			}
		})
	}
}

// The Redis that the environment names for other programs is the store where
// nothing else names one.
func TestARedisOfTheEnvironment(t *testing.T) {
	t.Parallel()
	url := map[string]string{"REDIS_URL": "redis://10.0.0.4", "REDIS_HOST": "10.0.0.5"}
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		flags      Flags
		want       string
	}{
		{"a URL before a host", "", url, Flags{}, "redis://10.0.0.4"},
		{"a host", "", map[string]string{"REDIS_HOST": "redis"}, Flags{}, "redis://redis:6379"},
		{"a host and its port", "", map[string]string{"REDIS_HOST": "redis", "REDIS_PORT": "6380"}, Flags{}, "redis://redis:6380"},
		{"an IPv6 address", "", map[string]string{"REDIS_HOST": "::1", "REDIS_PORT": "6380"}, Flags{}, "redis://[::1]:6380"},
		{"the port that Kubernetes sets", "", map[string]string{"REDIS_HOST": "redis", "REDIS_PORT": "tcp://10.3.2.1:6380"}, Flags{}, "redis://redis:6380"},
		{"a port alone is none", "", map[string]string{"REDIS_PORT": "tcp://10.3.2.1:6380"}, Flags{}, "embedded"},
		{"an empty one is none", "", map[string]string{"REDIS_URL": "", "REDIS_HOST": ""}, Flags{}, "embedded"},
		{"the file names another", "store: redis://10.0.0.6", url, Flags{}, "redis://10.0.0.6"},
		{"the file names none", "store: embedded", url, Flags{}, "embedded"},
		{"the file says the rest", "store: {password: hunter2, prefix: 'eu:'}", url, Flags{}, "redis://10.0.0.4"},
		{"a variable of ours", "", map[string]string{"SESSIONPROXY_STORE": "redis://10.0.0.7", "REDIS_URL": "redis://10.0.0.4"}, Flags{}, "redis://10.0.0.7"},
		{"a flag", "", url, Flags{Store: "embedded"}, "embedded"},
		{"not where a host is shared", "", url, Flags{Share: []string{"shop.test"}}, "embedded"},
		{"but a flag beside it", "", url, Flags{Share: []string{"shop.test"}, Store: "redis://10.0.0.8"}, "redis://10.0.0.8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Source{LookupEnv: lookup(tt.env), Flags: tt.flags}
			text := ""
			if tt.file != "" {
				s.File, text = "/etc/shop/shop.yaml", tt.file+shop
			}
			c, err := load(s, []byte(text))
			if err != nil || c.Store.URL != tt.want {
				t.Fatalf("%+v, %v; want %s", c, err, tt.want)
			}
			if tt.name == "the file says the rest" && (c.Store.Password != "hunter2" || c.Store.Prefix != "eu:") {
				t.Errorf("%+v: what the file says is lost", c.Store)
			}
		})
	}
}

// Faults of flags and variables name them.
func TestFaultsBesideTheFile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		env        map[string]string
		flags      Flags
	}{
		{name: "flag-off-loopback", flags: Flags{Listen: []string{"127.0.0.1:8080", "0.0.0.0:8080,ask"}}},
		{name: "flag-options", flags: Flags{Listen: []string{"127.0.0.1:1,client=,tsl,session=a b,ask,none", ",ask", "127.0.0.1:2,from=10.0.0.1/8,tls=yes"}}},
		{name: "flag-store", flags: Flags{Store: "rediss://proxy:hun/ter2@10.0.0.4/0", Admin: "8081"}},
		{name: "flag-store-misspelt", flags: Flags{Store: "embeded"}},
		{name: "environment", env: map[string]string{"SESSIONPROXY_LISTEN": "127.0.0.1:1 8080", "SESSIONPROXY_OPS": "here", "SESSIONPROXY_UNDECLARED": "refused", "SESSIONPROXY_UPSTREAM": "eu"}},
		{name: "store-in-the-environment", env: map[string]string{"SESSIONPROXY_STORE": "redis://h1,h2:hunter2"}},
		{name: "redis-in-the-environment", env: map[string]string{"REDIS_URL": "redis://proxy:hunter2@10.0.0.4/0?ssl_cert_reqs=none", "REDIS_HOST": "10.0.0.4"}},
		{name: "redis-host-in-the-environment", env: map[string]string{"REDIS_HOST": "10.0.0.4", "REDIS_PORT": "hunter2"}},
		{name: "share-hosts", flags: Flags{Share: []string{"https://shop.test/", "*.shop.test", "shop.test."}}},
		{name: "share-of-everybody", flags: Flags{Share: []string{"com"}}},
		{name: "share-beside-a-file", file: "sites: [{name: shop, hosts: [shop.test]}]", flags: Flags{Share: []string{"shop.test"}}},
		{name: "file-and-flags", file: "sites: [{name: shop}]\nlisen: []\n", env: map[string]string{"SESSIONPROXY_ADMIN": "0.0.0.0:8081"}, flags: Flags{Ops: "127.0.0.1"}},
		{name: "a-default-in-the-way", flags: Flags{Admin: "127.0.0.1:8080", Ops: "127.0.0.1:8080"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Source{LookupEnv: lookup(tt.env), Flags: tt.flags}
			if tt.file != "" {
				s.File = "shop.yaml"
			}
			_, err := load(s, []byte(tt.file))
			if err == nil {
				t.Fatal("no fault")
			}
			golden(t, filepath.Join("testdata/faults", tt.name+".txt"), err.Error()+"\n")
		})
	}
}

func TestAFaultOfTheFileItself(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(Source{File: file, LookupEnv: lookup(nil)})
	want := file + ": read the configuration: no such file or directory\n    make the file, or correct the path"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := load(Source{File: "shop.yaml", LookupEnv: lookup(nil)}, []byte("a: 1\nb: \xff\n")); err == nil || err.Error() != "shop.yaml:2:1: this is not UTF-8\n    | •••\n    | ^\n    save the file as UTF-8" {
		t.Errorf("bytes that are no text: %v", err)
	}
}
