package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// judge finds what can be read and is wrong all the same, and completes what
// one setting takes from another.
type judge struct {
	*report
	c *Config
}

func (j *judge) all() {
	j.ports()
	j.store()
	j.authority()
	j.pair("tls", j.c.TLS.Cert, j.c.TLS.Key)
	j.acme()
	j.egress()
	j.adminAuth()
	j.clients()
	j.sites()
	j.captchaAI()
	j.upstreams()
}

var idGlob = regexp.MustCompile(`^[A-Za-z0-9._~*-]+$`)

// missingFile is the remedy where a file can't be read.
const missingFile = "make the file, or correct the path"

const idForm = "1 to 64 of the characters A-Z a-z 0-9 . _ ~ -"

func (j *judge) authority() {
	ca, ok := j.pair("ca", j.c.CA.Cert, j.c.CA.Key)
	if ok && !ca.Leaf.IsCA {
		j.at("ca.cert", "this certificate is no authority: it cannot sign others", "name a CA's certificate, or leave ca out and one is made")
	}
	if j.c.CA.Constrain && j.c.CA.Cert != "" {
		j.at("ca.constrain", "constrain shapes the authority that is made, and ca.cert names another", "remove constrain, or cert and key")
	}
}

// pair checks that a certificate and its key are both there and belong
// together. It returns false where neither is set, or either is wrong.
func (j *judge) pair(under, cert, key string) (tls.Certificate, bool) {
	switch {
	case cert == "" && key == "":
		return tls.Certificate{}, false
	case cert == "":
		j.at(join(under, "key"), "a key without its certificate", "set "+under+".cert too")
		return tls.Certificate{}, false
	case key == "":
		j.at(join(under, "cert"), "a certificate without its key", "set "+under+".key too")
		return tls.Certificate{}, false
	}
	certPEM, ok := j.read(join(under, "cert"), cert)
	keyPEM, keyOK := j.read(join(under, "key"), key)
	if !ok || !keyOK {
		return tls.Certificate{}, false
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		j.at(join(under, "cert"), strings.TrimPrefix(err.Error(), "tls: "), "cert names a file of certificates, key one with the first one's private key, both in PEM")
		return tls.Certificate{}, false
	}
	return pair, true
}

func (j *judge) read(at, file string) ([]byte, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		j.at(at, fmt.Sprintf("read %s: %s", file, reason(err)), missingFile)
	}
	return b, err == nil
}

func (j *judge) roots(at, file string) {
	if b, ok := j.read(at, file); ok && !x509.NewCertPool().AppendCertsFromPEM(b) {
		j.at(at, "this file holds no certificate in PEM", "name a file that begins with -----BEGIN CERTIFICATE-----")
	}
}

func (j *judge) clients() {
	sites, known := map[string]bool{}, j.ok("sites")
	for i, s := range j.c.Sites {
		sites[s.Name] = true
		known = known && j.ok(fmt.Sprintf("sites[%d].name", i))
	}
	seen := map[string]bool{}
	for i, c := range j.c.Clients {
		at := fmt.Sprintf("clients[%d]", i)
		j.clientName(at+".name", c.Name)
		if seen[c.Name] {
			j.at(at+".name", "another client has this name too", "rename one")
		}
		seen[c.Name] = true
		j.password(at+".password", c.Password)
		for n, name := range c.Sites {
			if !sites[name] && known {
				j.at(fmt.Sprintf("%s.sites[%d]", at, n), "no site has this name", j.oneOf(name, sites))
			}
		}
		for n, glob := range c.Sessions {
			if !idGlob.MatchString(glob) {
				j.at(fmt.Sprintf("%s.sessions[%d]", at, n), "no session's ID matches this", "an ID is "+idForm+"; * stands for any run of them")
			}
		}
	}
}

// oneOf is the remedy for a name that none of the known ones is.
func (j *judge) oneOf(name string, known map[string]bool) string {
	all := slices.Sorted(maps.Keys(known))
	if near := Nearest(name, all); near != "" {
		return "did you mean " + near + "?"
	}
	if len(all) == 0 {
		return "declare it"
	}
	return "known: " + strings.Join(all, ", ")
}

func (j *judge) clientName(at, name string) {
	if !session.ValidID(name) {
		j.at(at, "this is no client's name", "a name is "+idForm)
		return
	}
	for _, mark := range []string{"-worker", "-session"} {
		// The mark may end the name too: the next one would be read at the wrong place.
		if strings.Contains(name, mark+"-") || strings.HasSuffix(name, mark) {
			j.at(at, mark+"- parts a user name, so a client's name cannot hold it", "rename the client")
		}
	}
}
