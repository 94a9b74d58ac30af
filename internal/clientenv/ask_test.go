package clientenv

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	open := admin.Listener{Addr: "127.0.0.1:8080", Auth: config.AuthNone}
	asking := admin.Listener{Addr: "127.0.0.1:8090", Auth: config.AuthAsk}
	https := admin.Listener{Addr: "0.0.0.0:8443", Auth: config.AuthAsk, TLS: true}
	crawler := admin.Listener{Addr: "127.0.0.1:8091", Auth: config.AuthNone, Client: "crawler"}
	crawlerQA1 := admin.Listener{Addr: "127.0.0.1:8092", Auth: config.AuthNone, Client: "crawler", Session: "qa1"}
	const x = "http://"
	for _, tt := range []struct {
		name   string
		source Source
		ports  []admin.Listener
		want   string
	}{
		{"nobody takes the port that asks nobody", Source{}, []admin.Listener{asking, open}, x + "127.0.0.1:8080"},
		{"the first of two", Source{}, []admin.Listener{open, {Addr: "127.0.0.1:1", Auth: config.AuthNone}}, x + "127.0.0.1:8080"},
		{"a name goes to the port that asks", Source{Client: "crawler"}, []admin.Listener{open, asking}, x + "crawler:x@127.0.0.1:8090"},
		{"or to one that takes it unasked", Source{Session: "qa1"}, []admin.Listener{open}, x + "run-session-qa1:x@127.0.0.1:8080"},
		{"better one without TLS", Source{Client: "crawler"}, []admin.Listener{https, asking}, x + "crawler:x@127.0.0.1:8090"},
		{"all the same one with TLS", Source{Client: "crawler"}, []admin.Listener{https}, "https://crawler:x@127.0.0.1:8443"},
		{"a client takes the port that is pinned to it", Source{Client: "crawler"}, []admin.Listener{open, asking, crawler}, x + "127.0.0.1:8091"},
		{"and the one for its session", Source{Client: "crawler", Session: "qa1"}, []admin.Listener{crawler, crawlerQA1}, x + "127.0.0.1:8092"},
		{"with a session that no port is pinned to, it says all", Source{Client: "crawler", Session: "qa2"}, []admin.Listener{asking, crawlerQA1, crawler}, x + "crawler-session-qa2:x@127.0.0.1:8091"},
		{"a worker is said at a pinned port, too", Source{Client: "crawler", Worker: "w1"}, []admin.Listener{crawler}, x + "crawler-worker-w1:x@127.0.0.1:8091"},
		{"nobody takes no port of another", Source{}, []admin.Listener{crawler, open}, x + "127.0.0.1:8080"},
		{"nobody, and all ports ask", Source{}, []admin.Listener{asking, https}, "each port of the proxy asks for a name: give one with --client, and its password with --password-file or SESSIONPROXY_PASSWORD"},
		{"all ports are another's", Source{Client: "browser"}, []admin.Listener{crawler, crawlerQA1}, "each port of the proxy is pinned to another client or session: name one with --client and --session, or a port with --listen"},
		{"an answer without an address", Source{}, []admin.Listener{{Auth: config.AuthNone}}, `ask the proxy for its ports: "" is no address: write HOST:PORT`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tt.source.choose(admin.Proxy{Listeners: tt.ports})
			got := p.String()
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("chose %s, want %s", got, tt.want)
			}
		})
	}
}

func TestChooseAmongDeclaredClients(t *testing.T) {
	t.Parallel()
	open := admin.Listener{Addr: "127.0.0.1:8080", Auth: config.AuthNone}
	asking := admin.Listener{Addr: "127.0.0.1:8090", Auth: config.AuthAsk}
	crawler := admin.Listener{Addr: "127.0.0.1:8091", Auth: config.AuthNone, Client: "crawler"}
	for _, tt := range []struct {
		name    string
		source  Source
		clients []string
		ports   []admin.Listener
		want    string // whether the password is checked, and the URL; or the error
	}{
		{"a declared client", Source{Client: "qa"}, []string{"crawler", "qa"}, []admin.Listener{asking}, "true http://qa:x@127.0.0.1:8090"},
		{"at a port that asks nobody its password is checked, too", Source{Client: "qa"}, []string{"qa"}, []admin.Listener{open}, "true http://qa:x@127.0.0.1:8080"},
		{"at a port that is pinned to it, nothing is", Source{Client: "crawler", Worker: "w1"}, []string{"crawler"}, []admin.Listener{asking, crawler}, "false http://crawler-worker-w1:x@127.0.0.1:8091"},
		{"nobody, where nobody is asked", Source{}, []string{"qa"}, []admin.Listener{open}, "false http://127.0.0.1:8080"},
		{"any name, where none is declared", Source{Client: "nobody"}, nil, []admin.Listener{asking}, "false http://nobody:x@127.0.0.1:8090"},
		{"a name that is not declared", Source{Client: "nobody"}, []string{"crawler", "qa"}, []admin.Listener{open, crawler}, "the proxy has no client nobody; it knows crawler, qa"},
		{"a session of nobody", Source{Session: "qa1"}, []string{"crawler", "qa"}, []admin.Listener{open}, "the proxy takes --worker and --session from its clients only: name one with --client; it knows crawler, qa"},
		{"a session of the client run", Source{Session: "qa1"}, []string{"run"}, []admin.Listener{open}, "true http://run-session-qa1:x@127.0.0.1:8080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := tt.source.choose(admin.Proxy{Listeners: tt.ports, Clients: tt.clients})
			got := fmt.Sprint(p.checked, " ", p)
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// world is a state directory with a CA and a token, and an admin API that
// answers from it.
type world struct {
	state, token string
	ca           []byte
	addr         string // of the API
}

// newWorld starts an API whose answer is change's, where that writes one.
func newWorld(t *testing.T, change func(w http.ResponseWriter, r *http.Request) bool) *world {
	t.Helper()
	w := &world{state: t.TempDir()}
	authority, err := certs.Open(w.state, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.ca = authority.PEM()
	if w.token, err = admin.Token(w.state); err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case change != nil && change(rw, r):
		case r.Header.Get("Authorization") != "Bearer "+w.token:
			rw.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/ca.pem":
			rw.Write(w.ca)
		case r.URL.Path == "/api/v1/proxy":
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"listeners":[{"addr":"127.0.0.1:8080","auth":"none"}],"ca_sha256":%q}`, admin.Fingerprint(w.ca))
		default:
			rw.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(api.Close)
	w.addr = strings.TrimPrefix(api.URL, "http://")
	return w
}

func (w *world) source() Source {
	return Source{Admin: w.addr, State: w.state, LookupEnv: env(nil)}
}

// env is an environment of these variables alone.
func env(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

func TestAskingTheProxy(t *testing.T) {
	t.Parallel()
	other, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request) bool
		spoil  func(*testing.T, *world)
		want   string // the error, with DIR and ADDR; "" none
	}{
		{"the proxy's port and the CA of the state directory", nil, nil, ""},
		{"an operator's own CA comes from the API", nil, func(t *testing.T, w *world) { remove(t, w.state, "ca.pem") }, ""},
		{"another CA than the state directory's", nil, func(_ *testing.T, w *world) { w.ca = other.PEM() },
			"the proxy at ADDR does not sign with DIR/ca.pem; name its directory with --state or, where its ca: setting took the place of that CA, remove ca.pem and ca.key there"},
		{"no token", nil, func(t *testing.T, w *world) { remove(t, w.state, "admin.token") },
			"read admin token: open DIR/admin.token: no such file or directory; no proxy has run with this directory: name another with --state, or the proxy with --listen"},
		{"the token of another proxy", nil, func(_ *testing.T, w *world) { w.token = "another" },
			"ask the proxy for its ports: ADDR takes another admin token; name the state directory of the proxy that runs there with --state"},
		{"something else listens there", func(w http.ResponseWriter, _ *http.Request) bool { w.Write([]byte("<html>")); return true }, nil,
			"ask the proxy for its ports: ADDR: answered 200 OK; this is no admin API of a sessionproxy that can tell: name one with --admin, or the proxy with --listen"},
		{"an older proxy", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true }, nil,
			"ask the proxy for its ports: ADDR: answered 404 Not Found; this is no admin API of a sessionproxy that can tell: name one with --admin, or the proxy with --listen"},
		{"a file that is no CA", nil, func(t *testing.T, w *world) { write(t, filepath.Join(w.state, "ca.pem"), "x") },
			"read the CA: DIR/ca.pem: no PEM certificate in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.answer)
			if tt.spoil != nil {
				tt.spoil(t, w)
			}
			proxy, ca, err := w.source().ask(t.Context(), w.addr, w.state)
			if tt.want != "" {
				if err == nil {
					t.Fatalf("no error, want %q", tt.want)
				}
				if got := strings.NewReplacer(w.state, "DIR", w.addr, "ADDR").Replace(err.Error()); got != tt.want {
					t.Errorf("error %q, want %q", got, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if proxy.String() != "http://127.0.0.1:8080" || string(ca) != string(w.ca) {
				t.Errorf("proxy %s, CA %q", proxy, ca)
			}
		})
	}
}

func TestNoProxyRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	s := w.source()
	s.Admin = "127.0.0.1:1"
	_, _, err := s.ask(t.Context(), s.Admin, w.state)
	if err == nil || !strings.HasSuffix(err.Error(), "connection refused; start it, or name its admin API with --admin or its port with --listen") {
		t.Errorf("error %v, want the remedy", err)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
