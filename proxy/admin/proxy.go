package admin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/http"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

// Proxy is what a client has to know of the proxy.
type Proxy struct {
	Listeners []Listener `json:"listeners"` // in the order of the configuration
	Clients   []string   `json:"clients"`   // names of those declared, in that order; empty: any name is good, with any password
	CASHA256  string     `json:"ca_sha256"` // of the certificate to trust, its DER, in lower-case hex
}

// Listener is one port of the proxy.
type Listener struct {
	Addr    string      `json:"addr"`    // host:port that it is bound to
	TLS     bool        `json:"tls"`     // an HTTPS proxy
	Auth    config.Auth `json:"auth"`    // whether it asks for credentials
	Client  string      `json:"client"`  // pinned; "" not
	Session string      `json:"session"` // pinned; "" not
}

// showProxy is GET /api/v1/proxy.
func (s *server) showProxy(w http.ResponseWriter, _ *http.Request) {
	clients := []string{} // never null
	for _, c := range s.clients() {
		clients = append(clients, c.Name)
	}
	writeJSON(w, http.StatusOK, "application/json", Proxy{append([]Listener{}, s.listeners...), clients, Fingerprint(s.ca)})
}

// Fingerprint is [Proxy].CASHA256 of the first certificate in pemData, and ""
// where it has none.
func Fingerprint(pemData []byte) string {
	block, _ := pem.Decode(pemData)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return hex.EncodeToString(sum[:])
}
