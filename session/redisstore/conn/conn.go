// Package conn reaches Redis: from one URL to a client of a single server, of a
// Sentinel group or of a Cluster, with time-outs short enough for a proxy's
// road, and a check at start whose errors say what to do.
//
// It knows how to get there and what a server allows. What is stored, and what
// an outage means, is left to the packages that share the client.
package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time-outs of every connection. A caller's context may be shorter, and counts:
// go-redis ignores it on the socket unless it is told otherwise.
const (
	DialTimeout = time.Second
	IOTimeout   = 500 * time.Millisecond
)

// Mode says how the servers of a store stand to each other.
type Mode int

// The modes there are.
const (
	Single   Mode = iota // one address, whatever is behind it
	Sentinel             // a master that Sentinels know
	Cluster
)

// Options say where Redis is and who asks. They come from [Parse]; what the
// long form of the configuration adds is set afterwards.
type Options struct {
	Mode  Mode
	Addrs []string // host:port; of the Sentinels, or of some of the Cluster's nodes. A path is a Unix socket
	TLS   bool     // to Sentinels too
	DB    int      // not in a Cluster

	Username string
	Password string

	MasterName       string // what the Sentinels call the master
	SentinelUsername string // the login at the Sentinels, which know no other
	SentinelPassword string

	CA   string // file (PEM) of authorities that are trusted beside the system's
	Cert string // file (PEM) of the certificate that is shown to servers that ask for one
	Key  string // file (PEM) of its private key
}

// String is the URL without users and passwords.
func (o Options) String() string {
	scheme := "redis"
	if o.TLS {
		scheme = "rediss"
	}
	switch o.Mode {
	case Sentinel:
		scheme += "+sentinel"
	case Cluster:
		scheme += "+cluster"
	case Single:
		if strings.HasPrefix(o.Addrs[0], "/") {
			scheme += "+unix"
		}
	}
	s := scheme + "://" + strings.Join(o.Addrs, ",")
	if o.Mode == Sentinel {
		s += "/" + o.MasterName
	}
	if o.DB != 0 {
		s += "/" + strconv.Itoa(o.DB)
	}
	return s
}

// LogValue keeps passwords out of logs.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// Client is a [redis.UniversalClient] whose connections are known by the
// address they lead to. It is safe for concurrent use.
type Client struct {
	redis.UniversalClient

	options Options
	dialer  *dialer
}

// Open makes a client. It reads the files that o names and asks no server:
// [Client.Check] does.
func Open(o Options) (*Client, error) {
	config, err := o.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("store %v: %w", o, err)
	}
	d := newDialer(config)
	all := &redis.UniversalOptions{
		Addrs: slices.Clone(o.Addrs), // the library appends to it
		DB:    o.DB, MasterName: o.MasterName,
		Username: o.Username, Password: o.Password, SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		ClientName: "sessionproxy", Dialer: d.dial,
		ContextTimeoutEnabled: true,
		DialTimeout:           DialTimeout, ReadTimeout: IOTimeout, WriteTimeout: IOTimeout,
		DialerRetries: 1, MaxRetries: 1,
		PoolSize: 32, MinIdleConns: 4, PipelinePoolSize: 4,
		// Neither is known to the Redis that Debian has: each would draw an error at every connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	c := &Client{options: o, dialer: d}
	switch o.Mode {
	case Single:
		c.UniversalClient = redis.NewClient(all.Simple())
	case Sentinel:
		c.UniversalClient = redis.NewFailoverClient(all.Failover())
	case Cluster:
		cluster := all.Cluster()
		// A node that is gone moves no client: it tries the same address until it asks who serves what.
		cluster.ClusterStateReloadInterval = 500 * time.Millisecond
		c.UniversalClient = redis.NewClusterClient(cluster)
	}
	return c, nil
}

// Options are those that the client was opened with.
func (c *Client) Options() Options { return c.options }

// Node returns the options of a client of one node, who logs in as c does. Its
// connections are its own, its commands are tried once.
func (c *Client) Node(addr string) *redis.Options {
	o := c.node(addr)
	o.Username, o.Password, o.DB = c.options.Username, c.options.Password, c.options.DB
	return o
}

// SentinelNode is Node for one of the Sentinels.
func (c *Client) SentinelNode(addr string) *redis.Options {
	o := c.node(addr)
	o.Username, o.Password = c.options.SentinelUsername, c.options.SentinelPassword
	return o
}

func (c *Client) node(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ClientName: "sessionproxy", Dialer: newDialer(c.dialer.tls).dial,
		ContextTimeoutEnabled: true,
		DialTimeout:           DialTimeout, ReadTimeout: IOTimeout, WriteTimeout: IOTimeout,
		DialerRetries: 1, MaxRetries: -1, PoolSize: 1, PipelinePoolSize: -1,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Switched tells the client that another master took over from one that may
// still answer: connections to the old one end, and none is dialled any more.
// When it returns, no later read sees what the old one holds.
func (c *Client) Switched(from, to string) { c.dialer.switched(from, to) }

// Drop ends all connections to an address that leads to another server now. New
// ones are dialled where they are needed.
func (c *Client) Drop(addr string) { c.dialer.drop(addr) }

// tlsConfig is nil where the store is reached in clear.
func (o Options) tlsConfig() (*tls.Config, error) {
	if !o.TLS {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("read its CA: %w", err)
		}
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool() // a machine without roots, such as an empty container
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read its CA: %s holds no certificate in PEM", o.CA)
		}
		config.RootCAs = roots
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// inClear says whether what is stored crosses a network without TLS.
func (o Options) inClear() bool {
	if o.TLS {
		return false
	}
	for _, addr := range o.Addrs {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			continue // a socket
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return true
		}
	}
	return false
}

// LogTo sends what go-redis has to say, which is of use where its own retries
// are in question, to a log at level debug. It holds for the whole process.
func LogTo(log *slog.Logger) { redis.SetLogger(logger{log}) }

type logger struct{ *slog.Logger }

func (l logger) Printf(ctx context.Context, format string, v ...any) {
	if l.Enabled(ctx, slog.LevelDebug) {
		l.DebugContext(ctx, "redis client", slog.String("message", fmt.Sprintf(format, v...)))
	}
}

var errSwitched = errors.New("this master was replaced")
