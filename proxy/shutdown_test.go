package proxy_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestShutdownWaitsForRequestsAndThenClosesTunnels(t *testing.T) {
	t.Parallel()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			arrived, finish := make(chan bool), make(chan bool)
			w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
				arrived <- true
				<-finish
				io.WriteString(w, "done")
			})})
			second := w.Listen(config.Listen{Auth: config.AuthNone})
			echoes := world.Serve(t, echo)
			tunnel := w.Connect(t, echoes)
			got := make(chan *world.Answer)
			r := world.Request(t, "GET", via.URL("/"), nil)
			go func() { got <- world.Do(t, w.Client(via), r) }()
			<-arrived

			over := make(chan error, 1)
			go func() { over <- w.Shutdown(t.Context()) }()
			for _, port := range []string{w.Addr, second} { // whichever the request came by
				world.Eventually(t, "the port closes", func() bool {
					c, err := net.Dial("tcp", port)
					if err == nil {
						c.Close()
					}
					return err != nil
				})
			}
			tunnel.Send("still open")
			tunnel.Want("still open")
			select {
			case err := <-over:
				t.Fatalf("Shutdown returned %v with a request under way", err)
			default:
			}
			finish <- true
			if a := <-got; a.StatusCode != 200 || a.Text != "done" {
				t.Errorf("the request under way got %d %q, %v", a.StatusCode, a.Text, a.Err)
			}
			tunnel.WantEnd()
			if err := <-over; err != nil {
				t.Errorf("Shutdown: %v", err)
			}
		})
	}
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan bool)
			w := world.New(t, world.Options{Faulty: true, Handler: handler(func(w http.ResponseWriter, r *http.Request) {
				arrived <- true
				<-r.Context().Done()
			})})
			failed := make(chan error)
			r := world.Request(t, "GET", via.URL("/"), nil)
			go func() {
				resp, err := w.Client(via).Do(r)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				failed <- err
			}()
			<-arrived
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := w.Shutdown(ctx); err == nil {
				t.Error("Shutdown says that the request had finished")
			}
			<-failed
		})
	}
}

// A tunnel that is only being opened holds nothing up: an upstream may take its
// time to answer.
func TestShutdownWaitsForNoTunnelToOpen(t *testing.T) {
	t.Parallel()
	u := world.NewUpstream(t, world.UpstreamOptions{})
	u.Mute(true)
	w := world.New(t, world.Options{Faulty: true, Config: func(c *config.Config) {
		c.Upstreams = map[string]config.Pool{"eu": world.Pool(u)}
		c.Sites[0].Upstream = "eu"
	}})
	c := w.Connect(t, "shop.test:22")
	c.Send("SSH-2.0-client\r\n")
	world.Eventually(t, "the upstream is asked", func() bool { return u.Open() > 0 })
	start := time.Now()
	if err := w.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > patience { // it would be half a minute
		t.Errorf("Shutdown took %v", took)
	}
	c.WantEnd()
}

func TestAReloadHoldsForNewRequestsOnOldConnections(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: mirror})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for range 2 { // the first may find out what the origin speaks
			w.Get(t, via, "/")
		}
		accepted := w.Origin.Accepted()
		w.Change(t, func(c *config.Config) { c.Sites[0].Headers = map[string]string{"X-Reload": via.Name} })
		if got := seen(t, w.Get(t, via, "/")).Get("X-Reload"); got != via.Name {
			t.Errorf("X-Reload is %q, want %q", got, via.Name)
		}
		if n := w.Origin.Accepted(); n != accepted {
			t.Errorf("a reload that leaves the origin as it is cost %d connections", n-accepted)
		}
	})
}

// Whoever reaches our own ports through us could do there what our address
// may, and a request could go round for ever.
func TestOurOwnPortsAreNotReachedThroughUs(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	w.Protect(admin.Addr())
	all := w.Listen(config.Listen{Addr: "0.0.0.0:0"})
	ports := map[string]string{}
	for name, addr := range map[string]string{"the proxy's": w.Addr, "the admin's": admin.Addr().String(), "one on all addresses": all} {
		_, ports[name], _ = net.SplitHostPort(addr)
	}
	for name, port := range ports {
		for _, host := range []string{"127.0.0.1", "localhost", "LOCALHOST", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[::ffff:0.0.0.0]"} {
			t.Run(name+" as "+host, func(t *testing.T) {
				a := w.Dial(t).Connect(host + ":" + port)
				wantRefusal(t, a, 403, "proxy_loop_detected", "own_listener")
				c := w.Dial(t)
				c.Send("GET http://" + host + ":" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
				wantRefusal(t, c.Answer("GET"), 403, "proxy_loop_detected", "own_listener")
			})
		}
	}
	t.Run("one on IPv6's loopback", func(t *testing.T) {
		ln, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Fatalf("%v: the tests need IPv6 on loopback", err)
		}
		defer ln.Close()
		w.Protect(ln.Addr())
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		for _, host := range []string{"[::1]", "[0:0:0:0:0:0:0:1]", "[::]"} {
			a := w.Dial(t).Connect(host + ":" + port)
			wantRefusal(t, a, 403, "proxy_loop_detected", "own_listener")
		}
	})
	t.Run("another address of ours", func(t *testing.T) {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range addrs {
			ip := a.(*net.IPNet).IP
			if ip.To4() == nil {
				continue
			}
			a := w.Dial(t).Connect(net.JoinHostPort(ip.String(), ports["one on all addresses"]))
			wantRefusal(t, a, 403, "proxy_loop_detected", "own_listener")
		}
	})
	t.Run("another port of the machine is no port of ours", func(t *testing.T) {
		if a := w.Dial(t).Connect(w.Origin.Addr("80")); a.StatusCode != 200 {
			t.Errorf("%s", a.Status)
		}
	})
	t.Run("by a declared name that resolves to it", func(t *testing.T) {
		w := world.New(t, world.Options{})
		w.Change(t, func(c *config.Config) { at(w.Addr)(c) })
		onEach(t, world.Ways, func(t *testing.T, via world.Way) {
			wantRefusal(t, w.Get(t, via, "/"), 403, "proxy_loop_detected", "own_listener")
		})
	})
}

// The operator is told of clients that do not trust the CA: once each, in
// words, and not of those that then succeed, as browsers that probe do.
func TestUntrustingClientsAreToldOf(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	distrust := func(user string, conf *tls.Config) {
		t.Helper()
		conf.ServerName = world.Host
		c := w.Connect(t, "shop.test:443", credentials(user, ""))
		if _, err := c.TryTLS(conf); err == nil {
			t.Fatal("the handshake went through")
		}
		c.Close()
	}
	for range 3 {
		distrust("stranger", w.Origin.TLS(world.Host))
		distrust("prober", w.Origin.TLS(world.Host))
	}
	w.Connect(t, "shop.test:443", credentials("prober", "")).TLS(world.Host)
	rec := w.WantRecord(t, "a client does not trust the proxy's CA", "client", "stranger", "host", world.Host)
	if !strings.Contains(rec.Message, "ca.pem") {
		t.Errorf("no remedy in %q", rec.Message)
	}
	distrust("stranger", w.Origin.TLS(world.Host))
	if n := w.Count("a client does not trust"); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
}
