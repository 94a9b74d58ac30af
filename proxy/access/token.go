package access

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Whom a token is for, so that one for the proxy opens no admin API and the
// reverse.
const (
	forAdmin = "sessionproxy:admin"
	forProxy = "sessionproxy:proxy"
)

// How long tokens live.
const (
	AccessLife   = 15 * time.Minute
	MaxProxyLife = 30 * 24 * time.Hour
	skew         = 10 * time.Second // between the proxies' clocks
)

// ErrToken says that a token is not good, and not why: that is for the log.
var ErrToken = errors.New("the token is not good, has ended or was revoked")

// claims are what a token says (RFC 7519). Nothing in it is secret.
type claims struct {
	jwt.RegisteredClaims
	Roles    []string `json:"roles,omitempty"`    // of an operator
	Proof    string   `json:"proof,omitempty"`    // the same: a keyed fingerprint, which changes with the password
	Sites    []string `json:"sites,omitempty"`    // that a client is held to
	Sessions []string `json:"sessions,omitempty"` // the same, by globs
}

func (a *Authority) sign(subject, audience, id string, life time.Duration, c claims) (string, error) {
	now := a.now()
	c.RegisteredClaims = jwt.RegisteredClaims{
		Subject: subject, Audience: jwt.ClaimStrings{audience}, ID: id,
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(life)),
	}
	key := a.keys.Load().newest()
	t := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	t.Header["kid"] = key.id
	return t.SignedString(key.private)
}

// LooksLikeToken says whether a password can be meant as a token.
func LooksLikeToken(s string) bool {
	return strings.HasPrefix(s, "eyJ") && strings.Count(s, ".") == 2
}

// maxToken bounds what is parsed.
const maxToken = 4096

// parse checks all of a token but the subject.
func (a *Authority) parse(ctx context.Context, text, audience string) (*claims, error) {
	if len(text) > maxToken || strings.ContainsAny(text, "\r\n") { // encoding/base64 passes over these
		return nil, ErrToken
	}
	c := new(claims)
	_, err := jwt.ParseWithClaims(text, c, func(t *jwt.Token) (any, error) {
		if t.Header["crit"] != nil {
			return nil, ErrToken // RFC 7515 section 4.1.11: we know no extension
		}
		id, _ := t.Header["kid"].(string)
		key, ok := a.key(ctx, id)
		if !ok {
			return nil, ErrToken
		}
		return key.private.Public(), nil
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), // never what the token itself says
		jwt.WithAudience(audience), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(skew), jwt.WithTimeFunc(a.now), jwt.WithStrictDecoding())
	if err != nil || c.Subject == "" || c.ID == "" || len(c.Audience) != 1 || c.IssuedAt == nil {
		return nil, ErrToken
	}
	if a.isDenied(ctx, c.ID) {
		return nil, ErrToken
	}
	return c, nil
}

// newID names a device or a token: 128 bits.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
