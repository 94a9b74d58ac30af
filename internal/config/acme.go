package config

import (
	"fmt"
	"net/mail"
	"net/url"
	"slices"
)

// set says whether there is a certificate, or one to come.
func (t TLS) set() bool { return t.Cert != "" || len(t.Domains) > 0 }

// HTTPS says whether any port of the proxy's speaks TLS.
func (c *Config) HTTPS() bool {
	return c.AdminTLS() || slices.ContainsFunc(c.Listen, func(l Listen) bool { return l.TLS })
}

// acme judges how a certificate is fetched for the proxy's own names.
func (j *judge) acme() {
	t := &j.c.TLS
	for i, name := range t.Domains {
		at := fmt.Sprintf("tls.domains[%d]", i)
		if !j.ok(at) {
			continue
		}
		p, message, _ := parsePattern(name)
		switch {
		case p.Wildcard:
			// A wildcard takes a challenge in DNS, which is not the proxy's to write.
			j.at(at, "a certificate is fetched for exact names, and this is a wildcard", "name each host, or fetch it by other means and set tls.cert and tls.key")
		case message != "" || p.Port != "" || p.IsIP():
			j.at(at, "a certificate is fetched for a host's name", "write it like proxy.example.com")
		case slices.Contains(t.Domains[:i], p.Host):
			j.at(at, "this name stands twice", "remove one")
		default:
			t.Domains[i] = p.Host
		}
	}
	if len(t.Domains) > 0 && t.Cert != "" {
		j.at("tls.domains", "tls.cert has a certificate already", "remove domains, or cert and key")
	}
	if len(t.Domains) > 0 && !j.c.HTTPS() && j.ok("listen") && j.ok("admin") {
		j.at("tls.domains", "no port speaks TLS, so nobody would be shown a certificate", "set tls: true on a port of listen, or remove domains")
	}
	for _, key := range []string{"email", "acme", "acme_ca", "http"} {
		if _, written := j.places["tls."+key]; written && len(t.Domains) == 0 && j.ok("tls.domains") {
			j.at("tls."+key, "without domains, no certificate is fetched", "set tls.domains, or remove "+key)
		}
	}
	if t.Email != "" {
		if a, err := mail.ParseAddress(t.Email); err != nil || a.Address != t.Email {
			j.at("tls.email", "this is no mail address", "write it like ops@example.com")
		}
	}
	if u, err := url.Parse(t.ACME); err != nil || u.Scheme != "https" || u.Host == "" {
		j.at("tls.acme", "an ACME directory is an https URL", "write it like https://acme.example.com/directory")
	}
	if t.ACMECA != "" {
		j.roots("tls.acme_ca", t.ACMECA)
	}
}
