package config

import (
	"fmt"
	"net/mail"
	"net/url"
)

// acme judges how a certificate is fetched for the proxy's own names.
func (j *judge) acme() {
	t := &j.c.TLS
	for i, name := range t.Domains {
		at := fmt.Sprintf("tls.domains[%d]", i)
		if p, message, _ := parsePattern(name); j.ok(at) && (message != "" || p.Wildcard || p.Port != "" || p.IsIP()) {
			j.at(at, "a certificate is fetched for a host's name", "write it like proxy.example.com")
		}
	}
	if len(t.Domains) > 0 && t.Cert != "" {
		j.at("tls.domains", "tls.cert has a certificate already", "remove domains, or cert and key")
	}
	if t.Email != "" {
		if a, err := mail.ParseAddress(t.Email); err != nil || a.Address != t.Email {
			j.at("tls.email", "this is no mail address", "write it like ops@example.com")
		}
	}
	if u, err := url.Parse(t.ACME); t.ACME != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		j.at("tls.acme", "an ACME directory is an https URL", "write it like https://acme.example.com/directory")
	}
	if t.ACMECA != "" {
		j.roots("tls.acme_ca", t.ACMECA)
	}
	if _, written := j.places["tls.http"]; written {
		j.socket("tls.http", t.HTTP)
	}
}
