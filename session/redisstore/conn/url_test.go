package conn_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, url string
		want      conn.Options
	}{
		{"one server", "redis://10.0.0.4:6380", conn.Options{Addrs: []string{"10.0.0.4:6380"}}},
		{"a host alone has Redis' port", "redis://redis", conn.Options{Addrs: []string{"redis:6379"}}},
		{"a slash at the end is database 0", "redis://redis/", conn.Options{Addrs: []string{"redis:6379"}}},
		{"user, password and database", "rediss://ana:s3cret@redis:6379/3", conn.Options{TLS: true, Addrs: []string{"redis:6379"}, Username: "ana", Password: "s3cret", DB: 3}},
		{"a password alone", "redis://:s3cret@redis", conn.Options{Addrs: []string{"redis:6379"}, Password: "s3cret"}},
		{"a user alone", "redis://ana@redis", conn.Options{Addrs: []string{"redis:6379"}, Username: "ana"}},
		{"a password that is written out, with its colon", "redis://ana:a%40b%2Fc:d%25@redis", conn.Options{Addrs: []string{"redis:6379"}, Username: "ana", Password: "a@b/c:d%"}},
		{"a plus stays a plus", "redis://:a+b@redis", conn.Options{Addrs: []string{"redis:6379"}, Password: "a+b"}},
		{"IPv6", "redis://[2001:db8::1]:6380,", conn.Options{}},
		{"IPv6 with a port", "redis://[2001:db8::1]:6380", conn.Options{Addrs: []string{"[2001:db8::1]:6380"}}},
		{"IPv6 without", "redis://[::1]", conn.Options{Addrs: []string{"[::1]:6379"}}},
		{"a socket", "redis+unix:///run/redis/redis.sock", conn.Options{Addrs: []string{"/run/redis/redis.sock"}}},
		{"a socket with a login", "redis+unix://ana:s3cret@/run/redis.sock", conn.Options{Addrs: []string{"/run/redis.sock"}, Username: "ana", Password: "s3cret"}},
		{"Sentinels", "redis+sentinel://:s3cret@h1,h2:26380,[::1]/shop/2", conn.Options{Mode: conn.Sentinel, Addrs: []string{"h1:26379", "h2:26380", "[::1]:26379"}, Password: "s3cret", MasterName: "shop", DB: 2}},
		{"Sentinels by TLS", "rediss+sentinel://h1/shop", conn.Options{Mode: conn.Sentinel, TLS: true, Addrs: []string{"h1:26379"}, MasterName: "shop"}},
		{"a Cluster", "redis+cluster://ana:s3cret@h1,h2:7001/0", conn.Options{Mode: conn.Cluster, Addrs: []string{"h1:6379", "h2:7001"}, Username: "ana", Password: "s3cret"}},
		{"a Cluster of which one node is named", "rediss+cluster://h1", conn.Options{Mode: conn.Cluster, TLS: true, Addrs: []string{"h1:6379"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := conn.Parse(tt.url)
			if wantsFault := tt.want.Addrs == nil; wantsFault != (err != nil) {
				t.Fatalf("Parse(%q): %v", tt.url, err)
			}
			if err == nil && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Parse(%q) = %#v, want %#v", tt.url, got, tt.want)
			}
		})
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, url, want string }{
		{"no URL at all", "redis.example.com:6379", "write embedded, or redis[s]://"},
		{"another scheme", "postgres://hunter2@db", "does not begin like this: write redis[s]://"},
		{"what redis-py calls a socket", "unix:///run/redis.sock", "write redis+unix://"},
		{"what Lettuce calls Sentinels", "redis-sentinel://h1/shop", "write redis+sentinel://"},
		{"several addresses of nothing in particular", "redis://h1:6379,h2:6379/0", "write redis+sentinel://HOST,HOST/MASTER for Sentinels, or redis+cluster://HOST,HOST"},
		{"no master", "redis+sentinel://h1,h2", "write its name after the hosts"},
		{"a database in place of the master", "redis+sentinel://h1//0", "write its name after the hosts"},
		{"a database in a Cluster", "redis+cluster://h1/2", "a Cluster has no databases but 0"},
		{"a database that is a word", "redis://h1/hunter2", "the database at the end of the URL is no number"},
		{"a database below 0", "redis://h1/-1", "the database at the end of the URL is no number"},
		{"parameters", "redis://h1/0?password=hunter2", "remove what follows the ?"},
		{"parameters without a path", "redis://h1?password=hunter2", "as %2F, %3F, %23 and %40"},
		{"a slash in the password", "redis://ana:hun/ter2@h1", "%2F"},
		{"a hash in the password", "redis://ana:hun#ter2@h1", "%23"},
		{"an at in the password", "redis://ana:hun@ter2@h1", "%40"},
		{"a percent in the password", "redis://ana:hun%ter2@h1", "%25"},
		{"no host", "redis://", "the URL lacks a host"},
		{"no host after the login", "redis://ana:hunter2@", "the URL lacks a host"},
		{"a comma too many", "redis+cluster://h1,", "the URL lacks a host"},
		{"an address twice", "redis+cluster://h1,h1:6379", "an address stands twice"},
		{"port 0", "redis://h1:0", "ports are numbers from 1 to 65535"},
		{"a port beyond the last", "redis://h1:65536", "ports are numbers from 1 to 65535"},
		{"a port that is a word", "redis://h1:hunter2", "ports are numbers from 1 to 65535"},
		{"IPv6 without brackets", "redis://2001:db8::1", "an IPv6 address stands in [ ]"},
		{"a space", "redis://h 1", "this is no host"},
		{"an escaped host", "redis://h%31", "this is no host"},
		{"a socket on a host", "redis+unix://run/redis.sock", "with three slashes"},
		{"a socket without a path", "redis+unix://", "with three slashes"},
		{"a socket that is the root", "redis+unix:///", "the URL names no socket"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := conn.Parse(tt.url)
			if _, ok := errors.AsType[*conn.URLError](err); !ok || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Parse(%q): %v, want %q in it", tt.url, err, tt.want)
			}
			for _, secret := range []string{"hunter2", "ter2"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("Parse(%q) shows it: %v", tt.url, err)
				}
			}
		})
	}
}

func TestOptionsPrintNoSecret(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"rediss://ana:hunter2@h1/3", "rediss://h1:6379/3"},
		{"redis+unix://ana:hunter2@/run/redis.sock", "redis+unix:///run/redis.sock"},
		{"redis+sentinel://ana:hunter2@h1,h2/shop/0", "redis+sentinel://h1:26379,h2:26379/shop"},
		{"rediss+cluster://ana:hunter2@h1", "rediss+cluster://h1:6379"},
	} {
		o, err := conn.Parse(tt.url)
		if err != nil || o.String() != tt.want || o.LogValue().String() != tt.want {
			t.Errorf("Parse(%q) prints as %v, %v, want %s", tt.url, o, err, tt.want)
		}
		if again, err := conn.Parse(o.String()); err != nil || !reflect.DeepEqual(again.Addrs, o.Addrs) {
			t.Errorf("%v is read back as %v, %v", o, again, err)
		}
	}
}

// FuzzParse: any text is options that can be used, or an error that says what
// to do and shows no word of the text that a password could be.
func FuzzParse(f *testing.F) {
	for _, url := range []string{"redis://a:b@h:1/2", "redis+unix:///a", "rediss+sentinel://a:b@c,d/e/0", "redis+cluster://[::1]:7", "redis://%", "x://"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, err := conn.Parse(url)
		if err != nil {
			e, ok := errors.AsType[*conn.URLError](err)
			if !ok || e.Message == "" || e.Remedy == "" {
				t.Errorf("Parse(%q): %#v", url, err)
			}
			return
		}
		again, err := conn.Parse(o.String())
		o.Username, o.Password = "", ""
		if err != nil && o.Addrs[0][0] != '/' || err == nil && !reflect.DeepEqual(again, o) {
			t.Errorf("Parse(%q) = %#v, whose text is read as %#v, %v", url, o, again, err)
		}
	})
}
