package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// Embedded is the URL of the store in the state directory.
const Embedded = "embedded"

// Store is where sessions live.
type Store struct {
	URL              string   `yaml:"url"` // Embedded, or one that [conn.Parse] reads
	Password         string   `yaml:"password"`
	CA               string   `yaml:"ca"`
	Cert             string   `yaml:"cert"`
	Key              string   `yaml:"key"`
	SentinelUsername string   `yaml:"sentinel_username"`
	SentinelPassword string   `yaml:"sentinel_password"`
	Required         bool     `yaml:"required"`
	Encryption       []string `yaml:"encryption"` // base64 of AES keys; the first one writes
	Mirror           bool     `yaml:"mirror"`
	Prefix           string   `yaml:"prefix"`
}

// Redis is where the store's Redis is. It is false where the store is embedded.
func (s Store) Redis() (conn.Options, bool) {
	o, err := conn.Parse(s.URL)
	if err != nil {
		return conn.Options{}, false
	}
	if s.Password != "" {
		o.Password = s.Password
	}
	o.SentinelUsername, o.SentinelPassword = s.SentinelUsername, s.SentinelPassword
	o.CA, o.Cert, o.Key = s.CA, s.Cert, s.Key
	return o, true
}

// Keys are the encryption keys.
func (s Store) Keys() [][]byte {
	keys := make([][]byte, len(s.Encryption))
	for i, k := range s.Encryption {
		keys[i], _ = aesKey(k)
	}
	return keys
}

// aesKey reads the base64 of an AES key, with or without its padding.
func aesKey(text string) ([]byte, bool) {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	return b, err == nil && slices.Contains([]int{16, 24, 32}, len(b))
}

func (j *judge) store() {
	s := j.c.Store
	if !j.ok("store.url") {
		return
	}
	if s.URL == Embedded {
		j.embedded(s)
		return
	}
	o, err := conn.Parse(s.URL)
	if fault, ok := errors.AsType[*conn.URLError](err); ok {
		remedy := fault.Remedy
		if Nearest(s.URL, []string{Embedded}) != "" {
			remedy = "did you mean " + Embedded + "?"
		}
		if at, _ := j.place("store.url"); strings.HasPrefix(at.name, "REDIS_") {
			remedy += "; where it is meant for another program, say --store embedded"
		}
		j.at("store.url", fault.Message, remedy)
		return
	}
	if o.Password != "" && s.Password != "" {
		j.at("store.password", "the URL has a password too", "remove one of them")
	}
	for _, f := range []struct{ name, value string }{{"sentinel_username", s.SentinelUsername}, {"sentinel_password", s.SentinelPassword}} {
		if f.value != "" && o.Mode != conn.Sentinel {
			j.at("store."+f.name, "this is for the login at Sentinels, and the URL names none", "remove it, or write redis+sentinel://HOST,HOST/MASTER")
		}
	}
	if s.SentinelUsername != "" && s.SentinelPassword == "" && o.Mode == conn.Sentinel && j.ok("store.sentinel_password") {
		j.at("store.sentinel_username", "a user without a password", "set store.sentinel_password too")
	}
	if o.Username != "" && o.Password+s.Password == "" && j.ok("store.password") {
		j.at("store.url", "a user without a password", "set store.password, or write redis://USER:PASSWORD@HOST")
	}
	for _, f := range []struct{ name, value string }{{"ca", s.CA}, {"cert", s.Cert}, {"key", s.Key}} {
		if f.value != "" && !o.TLS {
			j.at("store."+f.name, f.name+" is for TLS, and the URL has none", "write rediss in place of redis, or remove it")
		}
	}
	if s.CA != "" && o.TLS {
		j.roots("store.ca", s.CA)
	}
	if o.TLS {
		j.pair("store", s.Cert, s.Key)
	}
	for i, k := range s.Encryption {
		if _, ok := aesKey(k); !ok {
			j.at(fmt.Sprintf("store.encryption[%d]", i), "this is no encryption key", "write the base64 of 16, 24 or 32 random bytes: openssl rand -base64 32")
		}
	}
	if strings.ContainsFunc(s.Prefix, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`{}*?[]\`, r) }) || len(s.Prefix) > 64 {
		j.at("store.prefix", "this is no beginning of a key", `write up to 64 letters, digits and signs without { } * ? [ ] and \, such as "session:"`)
	}
}

// embedded finds what is said of a Redis where there is none.
func (j *judge) embedded(s Store) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"password", s.Password != ""}, {"ca", s.CA != ""}, {"cert", s.Cert != ""}, {"key", s.Key != ""},
		{"sentinel_username", s.SentinelUsername != ""}, {"sentinel_password", s.SentinelPassword != ""},
		{"required", s.Required}, {"encryption", len(s.Encryption) > 0}, {"mirror", !s.Mirror},
		{"prefix", s.Prefix != "session:"},
	} {
		if f.set {
			j.at("store."+f.name, f.name+" is for a Redis, and the store is embedded", "remove it, or set store.url")
		}
	}
}

// foreignStore takes the Redis that the environment names for other programs.
// REDIS_PORT alone says nothing: Kubernetes sets it beside any service "redis",
// as the URL of a TCP port.
func (d *decoder) foreignStore(c *Config) {
	if text, _ := d.lookup("REDIS_URL"); text != "" {
		c.Store.URL = text
		d.places["store.url"] = place{name: "REDIS_URL", text: mask}
		return
	}
	host, _ := d.lookup("REDIS_HOST")
	if host == "" {
		return
	}
	port, _ := d.lookup("REDIS_PORT")
	if i := strings.LastIndexByte(port, ':'); strings.HasPrefix(port, "tcp://") {
		port = port[i+1:]
	}
	if port == "" {
		port = "6379"
	}
	c.Store.URL = "redis://" + net.JoinHostPort(strings.Trim(host, "[]"), port)
	d.places["store.url"] = place{name: "REDIS_HOST", text: mask}
}
