package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// read loads text as a file of the directory dir.
func read(t *testing.T, dir, text string) *Config {
	t.Helper()
	c, err := load(Source{File: filepath.Join(dir, "shop.yaml"), LookupEnv: lookup(environment)}, []byte(text))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return c
}

// shop is the smallest configuration, to stand below other keys.
const shop = "\nsites: [{name: shop, hosts: [shop.test]}]\n"

func TestWithoutAFileItIsTheDefaults(t *testing.T) {
	t.Parallel()
	want := &Config{
		Listen:     []Listen{{Addr: "127.0.0.1:8080", Auth: AuthNone, From: []netip.Prefix{}}},
		Admin:      "127.0.0.1:8081",
		Ops:        "127.0.0.1:8082",
		State:      "state",
		Spool:      Spool{MaxMiB: 1024},
		Store:      Store{URL: "embedded", Encryption: []string{}, Mirror: true, Prefix: "session:"},
		Undeclared: Tunnel,
		TLS:        TLS{Domains: []string{}, ACME: "https://acme-v02.api.letsencrypt.org/directory", HTTP: ":80"},
		Egress:     Egress{Allow: []string{}, Deny: []string{}, Mode: EgressEnforce},
		Audit:      Audit{To: AuditStdout},
		Auth:       AdminAuth{Keys: []string{}, Operators: []Operator{}},
		Clients:    []Client{},
		CaptchaAI:  CaptchaAI{URL: "https://ocr.captchaai.com"},
		Upstream:   Direct,
		Upstreams:  map[string]Pool{},
	}
	got, err := Load(Source{LookupEnv: lookup(nil)})
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestAFileDeclaresASite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"lines without a word", " \n\r\n", "the file is empty"},
		{"comments alone", "# nothing yet\n", "no site is declared"},
		{"the marks of a document", "---\n...\n", "no site is declared"},
		{"a mapping of nothing", "{}", "no site is declared"},
		{"other keys", "admin: 127.0.0.1:1\n", "no site is declared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(Source{File: "shop.yaml", LookupEnv: lookup(nil)}, []byte(tt.text))
			faults, _ := errors.AsType[Faults](err)
			if len(faults) != 1 || faults[0].Where != "shop.yaml" || !strings.HasPrefix(faults[0].Message, tt.want) {
				t.Errorf("%v, want %q alone", err, tt.want)
			}
		})
	}
}

func TestASiteNeedsNameAndHostsOnly(t *testing.T) {
	t.Parallel()
	got := read(t, "/etc/shop", `
clients: [{name: crawler, password: "${CRAWLER_PASSWORD}"}]
sites: [{name: shop, hosts: ["*.Shop.example.com", "Müller.example:8443"]}]
`)
	wantClient := Client{Name: "crawler", Password: "hunter2", Sites: []string{}, Sessions: []string{}, Access: Write, Deliver: true}
	if !reflect.DeepEqual(got.Clients[0], wantClient) {
		t.Errorf("client %+v, want %+v", got.Clients[0], wantClient)
	}
	wantSite := Site{
		Name:   "shop",
		Hosts:  []string{"*.Shop.example.com", "Müller.example:8443"},
		Key:    "xn--mller-kva.example:8443",
		Origin: Origin{Resolve: map[string]string{}},

		Upstream: Direct,
		Affinity: ByWorker,
		Cookies: Cookies{
			Share: []string{"*"}, Private: []string{}, Capture: true, Inject: true, Precedence: SharedWins, Deliver: true,
			ProtectLogout: []string{"*/logout*", "*/signout*", "*/sign_out*", "*/logoff*", "*action=logout*"},
		},
		Headers:  map[string]string{},
		Captcha:  []Captcha{},
		Patterns: []Pattern{{Host: "shop.example.com", Wildcard: true}, {Host: "xn--mller-kva.example", Port: "8443"}},
	}
	if !reflect.DeepEqual(got.Sites[0], wantSite) {
		t.Errorf("site %+v, want %+v", got.Sites[0], wantSite)
	}
	if auth := got.Listen[0].Auth; auth != AuthAsk {
		t.Errorf("auth %s with clients, want ask", auth)
	}
}

func TestTheFullExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := fullExample(t, dir)
	c := read(t, dir, text)
	if got, want := c.Listen[2], (Listen{Addr: "127.0.0.1:8091", Auth: AuthNone, Client: "crawler", Session: "qa1", From: []netip.Prefix{}}); !reflect.DeepEqual(got, want) {
		t.Errorf("pinned port %+v, want %+v", got, want)
	}
	if got := c.Listen[4]; got.Auth != AuthAsk || !got.PlainAuth || !slices.Equal(got.From, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}) {
		t.Errorf("port of the private network %+v", got)
	}
	if got := []string{c.Clients[0].Password, c.Clients[1].Password}; !slices.Equal(got, []string{"hunter2", "from a file"}) {
		t.Errorf("passwords %q", got)
	}
	if got, want := c.CA.Cert, filepath.Join(dir, "ca.pem"); got != want {
		t.Errorf("ca.cert %s, want %s", got, want)
	}
	for _, k := range keys {
		if !strings.Contains(text, lastName(strings.TrimSuffix(k.path, "[]"))+":") {
			t.Errorf("the example has no %s", k.path)
		}
	}
}

// fullExample returns testdata/full.yaml and writes the files it names to dir.
func fullExample(t *testing.T, dir string) string {
	t.Helper()
	writeKeys(t, dir)
	for name, text := range map[string]string{
		"browser.password": "from a file\n", "vic.password": "from a file\n", "store.key": "MDEyMzQ1Njc4OWFiY2RlZg==\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestValues(t *testing.T) {
	t.Parallel()
	site := func(rest string) string { return "sites: [{name: shop, hosts: [shop.test], " + rest + "}]" }
	for _, tt := range []struct {
		name, text string
		got        func(*Config) any
		want       any
	}{
		{"a ttl is a duration", site("cookies: {ttl: 1h30m}"), func(c *Config) any { return c.Sites[0].Cookies.TTL }, 90 * time.Minute},
		{"auto is no duration", site("cookies: {ttl: auto}"), func(c *Config) any { return c.Sites[0].Cookies.TTL }, time.Duration(0)},
		{"no logout is protected", site("cookies: {protect_logout: []}"), func(c *Config) any { return c.Sites[0].Cookies.ProtectLogout }, []string{}},
		{"an unquoted number is a name", "clients: [{name: 007, password: 0x1F}]" + shop, func(c *Config) any { return c.Clients[0].Name + " " + c.Clients[0].Password }, "007 0x1F"},
		{"a block is a value", "clients:\n- name: a\n  password: |-\n    two words\n" + shop, func(c *Config) any { return c.Clients[0].Password }, "two words"},
		{"a variable within a value", `clients: [{name: a, password: "<${CRAWLER_PASSWORD}>"}]` + shop, func(c *Config) any { return c.Clients[0].Password }, "<hunter2>"},
		{"a dollar before a brace is doubled", `clients: [{name: a, password: "$${x} $x $"}]` + shop, func(c *Config) any { return c.Clients[0].Password }, "${x} $x $"},
		{"a variable's value is no YAML", `sites: [{name: "${INJECTED}", hosts: [a.test]}]`, func(c *Config) any { return c.Sites[0].Name }, "a, hosts: [evil.test]"},
		{"a variable's value is not expanded", `sites: [{name: "${NESTED}", hosts: [a.test]}]`, func(c *Config) any { return c.Sites[0].Name }, "${INJECTED}"},
		{"a variable for a switch", `listen: [{addr: 127.0.0.1:1, plain_auth: "${ON}"}]` + shop, func(c *Config) any { return c.Listen[0].PlainAuth }, true},
		{"an anchor serves two sites", "sites:\n- {name: a, hosts: [a.test], cookies: &c {share: [sid]}}\n- {name: b, hosts: [b.test], cookies: *c}", func(c *Config) any { return c.Sites[1].Cookies.Share }, []string{"sid"}},
		{"a header has one spelling", site("headers: {x-crawler: a b}"), func(c *Config) any { return c.Sites[0].Headers }, map[string]string{"X-Crawler": "a b"}},
		{"a resolved host has one spelling", site(`origin: {resolve: {"SHOP.test:443": "[::1]:8443"}}`), func(c *Config) any { return c.Sites[0].Origin.Resolve }, map[string]string{"shop.test:443": "[::1]:8443"}},
		{"a path is the file's own", "state: ../data" + shop, func(c *Config) any { return c.State }, "/etc/data"},
		{"an absolute path stays", "state: /data" + shop, func(c *Config) any { return c.State }, "/data"},
		{"lines may end as on Windows", "ops: 127.0.0.1:1\r\nadmin: 127.0.0.1:2\r\n" + shop, func(c *Config) any { return c.Admin }, "127.0.0.1:2"},
		{"a byte order mark is nothing", "\ufeffops: 127.0.0.1:1" + shop, func(c *Config) any { return c.Ops }, "127.0.0.1:1"},
		{"a store's URL alone", "store: redis://:hunter2@10.0.0.4/1" + shop, func(c *Config) any { return c.Store },
			Store{URL: "redis://:hunter2@10.0.0.4/1", Encryption: []string{}, Mirror: true, Prefix: "session:"}},
		{"a store in full", "store: {url: 'redis+sentinel://proxy@s1,s2/shop', password: \"${CRAWLER_PASSWORD}\", sentinel_username: watcher, sentinel_password: seen, required: true, mirror: false, prefix: 'eu:', encryption: [MDEyMzQ1Njc4OWFiY2RlZg==]}" + shop,
			func(c *Config) any { return c.Store },
			Store{URL: "redis+sentinel://proxy@s1,s2/shop", Password: "hunter2", SentinelUsername: "watcher", SentinelPassword: "seen", Required: true, Encryption: []string{"MDEyMzQ1Njc4OWFiY2RlZg=="}, Prefix: "eu:"}},
		{"a store's mapping that names none", "store: {url: embedded}" + shop, func(c *Config) any { return c.Store.URL }, "embedded"},
		{"where a store's Redis is", "store: {url: 'redis+sentinel://proxy@s1,s2/shop', password: a@b, sentinel_password: seen}" + shop,
			func(c *Config) any { o, _ := c.Store.Redis(); return o },
			conn.Options{Mode: conn.Sentinel, Addrs: []string{"s1:26379", "s2:26379"}, Username: "proxy", Password: "a@b", MasterName: "shop", SentinelPassword: "seen"}},
		{"an embedded store is no Redis", shop, func(c *Config) any { _, ok := c.Store.Redis(); return ok }, false},
		{"keys are read, padded or not", "store: {url: 'redis://h', encryption: [MDEyMzQ1Njc4OWFiY2RlZg, MDEyMzQ1Njc4OWFiY2RlZg==]}" + shop,
			func(c *Config) any { return c.Store.Keys() }, [][]byte{[]byte("0123456789abcdef"), []byte("0123456789abcdef")}},
		{"any free port may be taken twice", "admin: 127.0.0.1:0\nops: 127.0.0.1:0" + shop, func(c *Config) any { return c.Ops }, "127.0.0.1:0"},
		{"session none needs no right", "listen: [{addr: 127.0.0.1:1, client: a, session: none}]\nclients: [{name: a, password: b, sessions: [qa1]}]" + shop, func(c *Config) any { return c.Listen[0].Session }, "none"},
		{"a pinned port never asks", "listen: [{addr: 127.0.0.1:1, client: a}]\nclients: [{name: a, password: b}]" + shop, func(c *Config) any { return c.Listen[0].Auth }, AuthNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"CRAWLER_PASSWORD": "hunter2", "INJECTED": "a, hosts: [evil.test]", "NESTED": "${INJECTED}", "ON": "true"}
			c, err := load(Source{File: "/etc/shop/shop.yaml", LookupEnv: lookup(env)}, []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.got(c); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%#v, want %#v", got, tt.want)
			}
		})
	}
}

func TestNeedsRestart(t *testing.T) {
	t.Parallel()
	const before = "admin: 127.0.0.1:1" + shop
	for _, tt := range []struct {
		name, after string
		want        []string
	}{
		{"the same file again", before, []string{}},
		{"another site at once", "admin: 127.0.0.1:1\nsites: [{name: bank, hosts: [bank.test]}]\nundeclared: refuse\n", []string{}},
		{"a new admin address at restart", "admin: 127.0.0.1:2" + shop, []string{"admin"}},
		{"clients change what a port asks", before + "clients: [{name: a, password: b}]", []string{"listen"}},
		{"all that waits", "listen: [{addr: 127.0.0.1:9}]\nadmin: 127.0.0.1:2\nops: 127.0.0.1:3\nstate: x\nstore: redis://h\nca: {constrain: true}" + shop, []string{"listen", "admin", "ops", "state", "store", "ca"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := read(t, "/etc/shop", before).NeedsRestart(read(t, "/etc/shop", tt.after)); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	was := read(t, "/etc/shop", before)
	will := *was
	will.Auth.Keys = []string{"k.pem"}
	if got := was.NeedsRestart(&will); !slices.Equal(got, []string{"auth.keys"}) {
		t.Errorf("other keys that sign tokens: %q, want auth.keys", got)
	}
}
