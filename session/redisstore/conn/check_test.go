package conn_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

const prefix = "session:"

func TestMain(m *testing.M) {
	conn.LogTo(slog.New(slog.DiscardHandler)) // a pool that can't dial says so, again and again
	// A pool that could not dial tries each second, and sees then that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// open makes a client by a URL, changed by what the long form adds.
func open(t *testing.T, url string, more ...func(*conn.Options)) *conn.Client {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range more {
		m(&o)
	}
	c, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func ca(file string) func(*conn.Options) { return func(o *conn.Options) { o.CA = file } }

func check(t *testing.T, c *conn.Client) (warnings []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return c.Check(ctx, prefix)
}

// answer listens and gives every connection to a script.
func answer(t *testing.T, script func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(5 * time.Second))
				script(c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// old is a Redis of another day: it knows HELLO and INFO, and says OK else.
func old(info string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var args int
			fmt.Sscanf(line, "*%d", &args)
			var command string
			for i := range args {
				r.ReadString('\n')
				word, _ := r.ReadString('\n')
				if i == 0 {
					command = strings.ToLower(strings.TrimSpace(word))
				}
			}
			switch command {
			case "hello":
				fmt.Fprintf(c, "%%1\r\n$5\r\nproto\r\n:3\r\n")
			case "info":
				fmt.Fprintf(c, "$%d\r\n%s\r\n", len(info), info)
			default:
				fmt.Fprintf(c, "+OK\r\n")
			}
		}
	}
}

func TestCheckIsContentWith(t *testing.T) {
	t.Parallel()
	certs, mutual := redistest.NewCertificates(t, false), redistest.NewCertificates(t, true)
	for _, tt := range []struct {
		name string
		open func(t *testing.T) *conn.Client
	}{
		{"a server", func(t *testing.T) *conn.Client { return open(t, redistest.Single(t).URL()) }},
		{"its socket", func(t *testing.T) *conn.Client { return open(t, "redis+unix://"+redistest.Single(t).Socket) }},
		{"a numbered database", func(t *testing.T) *conn.Client { return open(t, redistest.Single(t).URL()+"/7") }},
		{"a password", func(t *testing.T) *conn.Client {
			return open(t, "redis://:p%40ss@"+redistest.Single(t, redistest.RequirePass("p@ss")).Addr)
		}},
		{"TLS", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.TLS(certs)).URL(), ca(certs.CA))
		}},
		{"TLS that asks for a certificate", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.TLS(mutual)).URL(), ca(mutual.CA), func(o *conn.Options) { o.Cert, o.Key = mutual.Cert, mutual.Key })
		}},
		{"Sentinels", func(t *testing.T) *conn.Client { return open(t, redistest.Sentinel(t).URL()) }},
		{"Sentinels with logins of their own, and TLS", func(t *testing.T) *conn.Client {
			g := redistest.Sentinel(t, redistest.TLS(certs), redistest.Conf("tls-replication yes"), redistest.RequirePass("p@ss"),
				redistest.Sentinels("tls-replication yes", "user default off", "user watcher on >w@tch +@all ~* &*",
					"sentinel sentinel-user tester", "sentinel sentinel-pass "+redistest.Password))
			return open(t, strings.Replace(g.URL(), "://", "://:p%40ss@", 1), ca(certs.CA), func(o *conn.Options) {
				o.SentinelUsername, o.SentinelPassword = "watcher", "w@tch"
			})
		}},
		{"a Cluster", func(t *testing.T) *conn.Client { return open(t, redistest.Cluster(t).URL()) }},
		{"a Cluster of which one replica is named", func(t *testing.T) *conn.Client {
			return open(t, "redis+cluster://"+redistest.Cluster(t).Nodes[4].Addr)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.open(t)
			if warnings, err := check(t, c); err != nil || len(warnings) > 0 {
				t.Errorf("Check: %v, %q", err, warnings)
			}
			if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Errorf("and then SET: %v", err)
			}
		})
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	t.Parallel()
	certs, others, mutual := redistest.NewCertificates(t, false), redistest.NewCertificates(t, false), redistest.NewCertificates(t, true)
	single := redistest.Single(t)
	secured := redistest.Single(t, redistest.RequirePass("hunter2"), redistest.User("off", "off >hunter2"))
	byTLS := redistest.Single(t, redistest.TLS(certs))
	group := redistest.Sentinel(t, redistest.Sentinels("requirepass hunter2", "sentinel sentinel-user tester", "sentinel sentinel-pass "+redistest.Password))
	watched := func(o *conn.Options) { o.SentinelPassword = "hunter2" }
	cluster := redistest.Cluster(t)
	gone := redistest.Single(t)
	gone.Kill()
	for _, tt := range []struct {
		name   string
		client func(t *testing.T) *conn.Client
		want   string // a regular expression
	}{
		{"nothing there", func(t *testing.T) *conn.Client { return open(t, gone.URL()) },
			`^store redis://127.0.0.1:\d+: nothing listens there: start Redis there, or correct the address$`},
		{"no such socket", func(t *testing.T) *conn.Client {
			return open(t, "redis+unix://"+filepath.Join(t.TempDir(), "no.sock"))
		}, `^store redis\+unix:///.*: there is no such socket: start Redis there`},
		{"an unknown name", func(t *testing.T) *conn.Client { return open(t, "redis://no-such-host.invalid") },
			`the name no-such-host.invalid is not known .*: correct the address`},
		{"a server that never answers", func(t *testing.T) *conn.Client {
			r := redistest.NewRelay(t, single.Addr)
			r.Stall()
			return open(t, "redis://"+r.Addr)
		}, `it takes connections and does not answer: see whether it is stopped`},
		{"a web server", func(t *testing.T) *conn.Client {
			return open(t, "redis://"+answer(t, func(c net.Conn) {
				bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}))
		}, `what answers there is no Redis: correct host and port`},

		{"no password where one is asked for", func(t *testing.T) *conn.Client { return open(t, secured.URL()) },
			`it asks for a password: set store.password$`},
		{"a wrong password", func(t *testing.T) *conn.Client { return open(t, "redis://:hunter3@"+secured.Addr) },
			`the user or the password is wrong, or the user is off: correct the user and password in the store's URL$`},
		{"an unknown user", func(t *testing.T) *conn.Client { return open(t, "redis://nobody:hunter2@"+secured.Addr) },
			`the user or the password is wrong`},
		{"a user that is off", func(t *testing.T) *conn.Client { return open(t, "redis://off:hunter2@"+secured.Addr) },
			`or the user is off`},
		{"a database that is not there", func(t *testing.T) *conn.Client { return open(t, single.URL()+"/99") },
			`it has no database 99: correct the number`},

		{"TLS to a server without", func(t *testing.T) *conn.Client { return open(t, "rediss://"+single.Addr) },
			`if it does not speak TLS, write redis in place of rediss$`},
		{"TLS to a web server", func(t *testing.T) *conn.Client {
			return open(t, "rediss://"+answer(t, func(c net.Conn) {
				c.Read(make([]byte, 1<<10))
				fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			}))
		}, `it does not speak TLS: write redis in place of rediss`},
		{"no TLS to a server with", func(t *testing.T) *conn.Client { return open(t, "redis://"+byTLS.Addr) },
			`it hangs up at the first word: if it speaks TLS, write rediss`},
		{"an authority that is not named", func(t *testing.T) *conn.Client { return open(t, byTLS.URL()) },
			`signed by an authority that this machine does not know: name that authority's certificate in store.ca`},
		{"another authority", func(t *testing.T) *conn.Client { return open(t, byTLS.URL(), ca(others.CA)) },
			`is not signed by the authority in .*ca.pem: name the right`},
		{"a name that the certificate has not", func(t *testing.T) *conn.Client {
			elsewhere := redistest.NewCertificates(t, false, "redis.example.com")
			return open(t, redistest.Single(t, redistest.TLS(elsewhere)).URL(), ca(elsewhere.CA))
		}, `its certificate is for another name: .*127\.0\.0\.1.*: write one of its names`},
		{"no client certificate", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.TLS(mutual)).URL(), ca(mutual.CA))
		}, `it refuses the TLS connection: .*certificate.*: if it asks clients for a certificate, name one in store.cert and store.key`},

		{"a replica", func(t *testing.T) *conn.Client { return open(t, group.Nodes[1].URL()) },
			`this is a read-only replica: name its master, which is 127.0.0.1:\d+; or let Sentinels say`},
		{"a Sentinel given as a server", func(t *testing.T) *conn.Client { return open(t, "redis://:hunter2@"+group.Sentinels[0].Addr) },
			`this is a Sentinel, which stores nothing: write redis\+sentinel://127.0.0.1:\d+/MASTER$`},
		{"a server given as a Sentinel", func(t *testing.T) *conn.Client { return open(t, "redis+sentinel://"+single.Addr+"/shop") },
			`this is no Sentinel: name the Sentinels' addresses`},
		{"Sentinels that watch another master", func(t *testing.T) *conn.Client {
			return open(t, strings.Replace(group.URL(), "/shop", "/mymaster", 1), watched)
		}, `this Sentinel watches no master "mymaster": write one that it watches after the hosts: shop$`},
		{"Sentinels that ask for a password", func(t *testing.T) *conn.Client { return open(t, group.URL()) },
			`127.0.0.1:\d+: it asks for a password: set store.sentinel_password$`},
		{"Sentinels that ask for another", func(t *testing.T) *conn.Client {
			return open(t, group.URL(), func(o *conn.Options) { o.SentinelPassword = "hunter3" })
		}, `correct store.sentinel_username and store.sentinel_password: Sentinels have logins of their own$`},
		{"Sentinels that announce an address that is not to be had", func(t *testing.T) *conn.Client {
			s := redistest.Single(t)
			lost := redistest.Single(t)
			w := redistest.Single(t, redistest.AsSentinel("sentinel monitor shop 127.0.0.1 "+strings.Split(lost.Addr, ":")[1]+" 1"))
			lost.Kill()
			_ = s
			return open(t, "redis+sentinel://"+w.Addr+"/shop")
		}, ` at 127.0.0.1:\d+: its peers announce this address, and it can't be reached from here: .*replica-announce-ip.*nothing listens there`},

		{"a node of a Cluster given as a server", func(t *testing.T) *conn.Client { return open(t, cluster.Nodes[0].URL()) },
			`this is a node of a Cluster: write redis\+cluster:// in place of redis://`},
		{"a server given as a Cluster", func(t *testing.T) *conn.Client { return open(t, "redis+cluster://"+single.Addr) },
			`this Redis is no node of a Cluster: write redis:// for it`},
		{"a Cluster that serves no slot", func(t *testing.T) *conn.Client {
			return open(t, "redis+cluster://"+redistest.Single(t, redistest.Conf("cluster-enabled yes")).Addr)
		}, `the Cluster serves 0 of 16384 slots`},

		{"a Redis that is too old", func(t *testing.T) *conn.Client {
			return open(t, "redis://"+answer(t, old("redis_version:6.0.16\r\nredis_mode:standalone\r\nrole:master\r\n")))
		}, `this is Redis 6.0.16: use 6.2 or newer$`},
		{"a Redis that speaks RESP2 alone", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.Conf(`rename-command HELLO ""`)).URL())
		}, `it does not speak RESP3, and so can't tell what changed: reach Redis itself`},
		{"a full memory", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.Conf("maxmemory 1")).URL())
		},
			`its memory is full: raise maxmemory`},
		{"too few replicas", func(t *testing.T) *conn.Client {
			return open(t, redistest.Single(t, redistest.Conf("min-replicas-to-write 1")).URL())
		}, `it takes no writes without its replicas`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := check(t, tt.client(t))
			if err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) {
				t.Errorf("Check: %v\nwant %s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("Check shows a password: %v", err)
			}
		})
	}
}

func TestCheckWarns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, url, conf, want string }{
		{"a memory that drops sessions", "", "maxmemory 100mb\nmaxmemory-policy allkeys-lru", "with maxmemory-policy allkeys-lru a full Redis drops sessions"},
		{"no TLS off loopback", "redis://192.0.2.1", "", "cross the network in clear"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := tt.url
			if url == "" {
				url = redistest.Single(t, redistest.Conf(tt.conf)).URL()
			}
			warnings, _ := check(t, open(t, url))
			if len(warnings) != 1 || !strings.Contains(warnings[0], tt.want) {
				t.Errorf("Check warns %q, want %q", warnings, tt.want)
			}
		})
	}
}

func TestCheckNamesWhatANumberedDatabaseNeeds(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.User("proxy", "on >hunter2 ~* &* +@all -select"))
	_, err := check(t, open(t, "redis://proxy:hunter2@"+s.Addr+"/1"))
	if want := `the user "proxy" lacks permissions: +select: `; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Check: %v\nwant %s", err, want)
	}
}

// What Check says is missing is enough: whoever grants just that may go on.
func TestCheckNamesEachMissingPermission(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	all := "~session:* ~{session:* ~refresh:* ~denied:* &session:* " + strings.Join(conn.Rights(), " ")
	for i, tt := range []struct{ name, without string }{
		{"a command", "+hset"}, {"a command of scripts", "+zremrangebyscore"}, {"a subcommand", "+client|tracking"},
		{"PING", "+ping"}, {"INFO", "+info"}, {"MULTI", "+multi"}, {"DISCARD", "+discard"}, {"the public keys", "~session:*"}, {"the companions", "~{session:*"}, {"the channel", "&session:*"},
		{"the keys of logins", "~refresh:*"}, {"the keys of revocations", "~denied:*"}, {"PUBLISH", "+publish"},
		{"two", "+eval +evalsha"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			user := fmt.Sprintf("worker%d", i)
			rules := " " + all + " "
			for _, w := range strings.Fields(tt.without) {
				rules = strings.Replace(rules, " "+w+" ", " ", 1)
			}
			args := []any{"ACL", "SETUSER", user, "on", ">hunter2", "resetchannels"}
			for _, r := range strings.Fields(rules) {
				args = append(args, r)
			}
			s.Do(args...)
			c := open(t, "redis://"+user+":hunter2@"+s.Addr)
			_, err := check(t, c)
			want := fmt.Sprintf("the user %q lacks permissions: %s: let an administrator run ACL SETUSER %s %s;", user, tt.without, user, tt.without)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("Check: %v\nwant %s", err, want)
			}
			for _, w := range strings.Fields(tt.without) {
				s.Do("ACL", "SETUSER", user, w)
			}
			if _, err := check(t, c); err != nil {
				t.Errorf("with what was missing: %v", err)
			}
		})
	}
}
