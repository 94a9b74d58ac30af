package admin

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func TestProxy(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("abc")})
	o.Listeners = []Listener{
		{Addr: "127.0.0.1:8080", Auth: config.AuthNone},
		{Addr: "0.0.0.0:8443", TLS: true, Auth: config.AuthAsk},
		{Addr: "127.0.0.1:8091", Auth: config.AuthNone, Client: "crawler", Session: "qa1"},
	}
	o.Clients = func() []config.Client { return []config.Client{{Name: "crawler"}, {Name: "qa"}} }
	// The digest is FIPS 180-2's own example, of "abc".
	want := `{"listeners":[` +
		`{"addr":"127.0.0.1:8080","tls":false,"auth":"none","client":"","session":""},` +
		`{"addr":"0.0.0.0:8443","tls":true,"auth":"ask","client":"","session":""},` +
		`{"addr":"127.0.0.1:8091","tls":false,"auth":"none","client":"crawler","session":"qa1"}` +
		`],"clients":["crawler","qa"],"ca_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}` + "\n"
	w := ask(New(o), "GET", "/api/v1/proxy")
	if got := w.Body.String(); got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	w = ask(New(testOptions(t)), "GET", "/api/v1/proxy")
	if got := w.Body.String(); !strings.Contains(got, `"clients":[]`) {
		t.Errorf("without clients: body %s", got)
	}
}
