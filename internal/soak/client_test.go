package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of a client: longer than what the proxies wait for
// a lease, a login or a token, one after the other.
const patience = 100 * time.Second

// clients are all that use the proxies.
type clients struct {
	t       *testing.T
	origin  *origin
	group   *group
	roots   *x509.CertPool
	figures *figures

	answered [sites * sessions]answer
}

// answer is the last value of a session's cookie n that a client got, and those
// a while before: only what is older than the road between proxies is asked for.
type answer struct {
	mu   sync.Mutex
	past []dated
}

type dated struct {
	n  int64
	at time.Time
}

// settle is when all proxies must know what one has answered.
const settle = 3 * time.Second

// floor is the value that all proxies must know by now.
func (a *answer) floor(now time.Time) (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.past) > 1 && now.Sub(a.past[1].at) > settle {
		a.past = a.past[1:]
	}
	if len(a.past) > 0 && now.Sub(a.past[0].at) > settle {
		n = a.past[0].n
	}
	return n
}

func (a *answer) got(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.past = append(a.past, dated{n, time.Now()})
}

// client is one of them: it writes in some sessions, which no other does, and
// reads in any.
type client struct {
	*clients
	number int
	home   int // the proxy that it uses as a rule
	h2     bool
	count  int
	// One for each proxy and session: net/http puts the HTTP/2 requests to one
	// host on one connection, whatever proxy and user they are for.
	transports map[string]*http.Transport
}

func (c *clients) newClient(number int) *client {
	return &client{clients: c, number: number, home: number % len(c.group.proxies), h2: number%2 == 0, transports: map[string]*http.Transport{}}
}

// through is the transport that leaves by a proxy with a user name.
func (c *client) through(proxy *url.URL) *http.Transport {
	t := c.transports[proxy.String()]
	if t == nil {
		t = &http.Transport{
			Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: c.roots}, ForceAttemptHTTP2: c.h2,
			IdleConnTimeout: 20 * time.Second, MaxIdleConnsPerHost: 1,
		}
		c.transports[proxy.String()] = t
	}
	return t
}

// leave closes what is open.
func (c *client) leave() {
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// run acts until ctx ends, with a rest of pause on average between.
func (c *client) run(ctx context.Context, total int, pause time.Duration) {
	defer c.leave()
	for {
		select {
		case <-time.After(rand.N(2 * pause)):
		case <-ctx.Done():
			return
		}
		// What it writes in is its own: the sessions whose number is its own, modulo all clients.
		own := c.number + total*rand.IntN(max(1, sites*sessions/total))
		any := rand.IntN(sites * sessions)
		if rand.IntN(3) > 0 {
			any = own
		}
		c.act(ctx, own, any)
	}
}

// act does one thing that clients do.
func (c *client) act(ctx context.Context, own, any int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	switch p := rand.IntN(100); {
	case p < 12:
		c.do(ctx, "set", own, "GET", "/set", nil, func(r *http.Response, body []byte) error {
			n, err := strconv.ParseInt(string(body), 10, 64)
			if err == nil {
				c.answered[own].got(n)
			}
			return err
		})
	case p < 15:
		text := bytes.Repeat([]byte{byte(p), byte(c.number)}, 128<<10)
		sum := sha256.Sum256(text)
		c.do(ctx, "upload", any, "POST", "/upload", text, func(_ *http.Response, body []byte) error {
			if string(body) != hex.EncodeToString(sum[:]) {
				return errors.New("other bytes arrived")
			}
			return nil
		})
	case p < 17:
		c.do(ctx, "events", any, "GET", "/events", nil, func(_ *http.Response, body []byte) error {
			if n := strings.Count(string(body), "data: "); n != beats {
				return fmt.Errorf("%d events of %d", n, beats)
			}
			return nil
		})
	case p < 19:
		c.socket(ctx, any)
	case p < 20:
		guardedSite := any/sessions/kinds*kinds + guarded
		c.do(ctx, "form", guardedSite*sessions+any%sessions, "POST", "/contact", []byte("name=soak&g-recaptcha-response=&text=hello"), nil)
	case p < 40:
		loginSite := any/sessions/kinds*kinds + recipe
		c.do(ctx, "account", loginSite*sessions+any%sessions, "GET", "/account", nil, nil)
	default:
		c.do(ctx, "page", any, "GET", "/page", nil, nil)
	}
}

// request makes one in a session, for the client's proxy or now and then another,
// and the transport that leads there.
func (c *client) request(ctx context.Context, session int, method, path string, body []byte) (*http.Request, *http.Transport, error) {
	site, id := session/sessions, session%sessions
	c.count++
	proxy := c.home
	if c.count%20 == 0 {
		proxy = rand.IntN(len(c.group.proxies))
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://"+host(site)+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if method == http.MethodPost && path != "/upload" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.Header.Set(fieldWho, who(site, id))
	r.Header.Set(fieldFloor, fmt.Sprint(c.answered[session].floor(time.Now())))
	return r, c.through(&url.URL{
		Scheme: "http", Host: c.group.proxies[proxy].addr,
		User: url.UserPassword(fmt.Sprintf("soak-worker-w%d-session-q%d", c.number, id), "soak"),
	}), nil
}

// do sends a request and notes how it went.
func (c *client) do(ctx context.Context, what string, session int, method, path string, body []byte, check func(*http.Response, []byte) error) {
	r, transport, err := c.request(ctx, session, method, path, body)
	if err != nil {
		c.t.Error(err)
		return
	}
	began := time.Now()
	err = func() error {
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		switch {
		case err != nil:
			return err
		case resp.StatusCode != http.StatusOK:
			return fmt.Errorf("%d %s%s", resp.StatusCode, resp.Header.Get("Proxy-Status"), resp.Header.Get("Location"))
		case check != nil:
			return check(resp, text)
		}
		return nil
	}()
	c.figures.add(what, time.Since(began), err)
}

// socket opens a WebSocket, and talks on it for a while.
func (c *client) socket(ctx context.Context, session int) {
	if c.h2 {
		return // over HTTP/1.1 only
	}
	r, transport, err := c.request(ctx, session, "GET", "/ws", nil)
	if err != nil {
		c.t.Error(err)
		return
	}
	for k, v := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "c29hayBzb2FrIHNvYWsgcw=="} {
		r.Header.Set(k, v)
	}
	began := time.Now()
	err = func() error {
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		conn, ok := resp.Body.(io.ReadWriter)
		if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
			return fmt.Errorf("%d %s", resp.StatusCode, resp.Header.Get("Proxy-Status"))
		}
		for i := range 5 {
			want := fmt.Sprintf("message %d of %d", i, c.number)
			if _, err := io.WriteString(conn, want); err != nil {
				return err
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil {
				return err
			}
			if string(got) != want {
				return fmt.Errorf("%q came back for %q", got, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
		return nil
	}()
	c.figures.add("socket", time.Since(began), err)
}
