package config

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"unicode"

	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/session"
)

// TokenOperator is what the holder of the admin token is called.
const TokenOperator = "token"

func (j *judge) adminAuth() {
	for i, file := range j.c.Auth.Keys {
		at := fmt.Sprintf("auth.keys[%d]", i)
		if b, ok := j.read(at, file); ok && !isSigningKey(b) {
			j.at(at, "this file holds no Ed25519 private key in PEM", "make one with: openssl genpkey -algorithm ed25519 -out FILE")
		}
	}
	seen := map[string]bool{}
	for i, o := range j.c.Auth.Operators {
		at := fmt.Sprintf("auth.operators[%d]", i)
		switch {
		case !session.ValidID(o.Name):
			j.at(at+".name", "this is no operator's name", "a name is "+idForm)
		case o.Name == TokenOperator:
			j.at(at+".name", "the audit log calls the admin token so", "choose another name")
		case seen[o.Name]:
			j.at(at+".name", "another operator has this name too", "rename one")
		}
		seen[o.Name] = true
		j.password(at+".password", o.Password)
	}
}

func isSigningKey(text []byte) bool {
	block, _ := pem.Decode(text)
	if block == nil {
		return false
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	_, ok := key.(ed25519.PrivateKey)
	return err == nil && ok
}

// password judges a password, or a hash of one.
func (j *judge) password(at, text string) {
	if strings.ContainsFunc(text, unicode.IsControl) {
		j.at(at, "the password holds a control character, which no client can send", "take it out (RFC 7617, section 2)")
	} else if _, err := password.Parse(text); err != nil {
		j.at(at, err.Error(), "make one with sessionproxy operators add, or write the password itself, as ${NAME} or ${file:PATH}")
	}
}
