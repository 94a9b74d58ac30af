package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// Operator is somebody who has proved who he is.
type Operator struct {
	Name   string
	Role   config.Role
	Device string // ID of what he is logged in with
}

// operators are those declared, and who has the admin token, by name.
type operators struct {
	all     map[string]operator
	secrets []password.Secret
}

type operator struct {
	role   config.Role
	secret password.Secret
	proof  string // a fingerprint of secret: with it all that he is logged in with ends
}

// SetOperators puts other operators in force. One who is no longer declared, or
// has another password now, is out at once, and for good: his devices are
// forgotten, lest they be good again when he is declared as before.
func (a *Authority) SetOperators(declared []config.Operator) error {
	next := &operators{all: map[string]operator{}}
	key := derive(a.seal, "sessionproxy operators")
	if a.token != "" {
		declared = append(slices.Clone(declared), config.Operator{Name: config.TokenOperator, Password: a.token, Role: config.RoleOperator})
	}
	for _, o := range declared {
		secret, err := password.Parse(o.Password)
		if err != nil {
			return fmt.Errorf("operator %s: %w", o.Name, err)
		}
		next.all[o.Name] = operator{o.Role, secret, secret.Fingerprint(key)}
		next.secrets = append(next.secrets, secret)
	}
	last := a.operators.Swap(next)
	if last == nil {
		return nil // others may know more than this process that begins
	}
	gone := map[string]string{} // the proof that ends, by name
	for name, o := range last.all {
		if next.all[name].proof != o.proof {
			gone[name] = o.proof
		}
	}
	if len(gone) > 0 {
		a.forget(gone)
	}
	return nil
}

// forgetTime bounds how long a reload waits for the store.
const forgetTime = 5 * time.Second

// forget logs out what was logged in by the proofs. Where that fails they open
// nothing all the same, unless they are in force again.
func (a *Authority) forget(proofs map[string]string) {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	n, err := a.revokeAll(ctx, func(l login) bool { return l.Proof == proofs[l.User] })
	switch {
	case err != nil:
		a.log.Warn("forget what operators were logged in with who are gone, or have another password", "err", err)
	case n > 0:
		a.log.Info("operators are gone, or have another password: their devices are logged out", "devices", n)
	}
}

// Tokens are what a program is logged in with.
type Tokens struct {
	Access  string
	Refresh string
	Ends    time.Time // of Access
	Operator
}

// Lives of what an operator is logged in with.
const (
	RefreshLife = 14 * 24 * time.Hour // since its last use
	BrowserLife = 30 * time.Minute    // the same
	grace       = 10 * time.Second    // in which a refresh token may come twice
)

// ErrLogin says that name or password is wrong, and not which.
var ErrLogin = errors.New("the name or the password is wrong")

const (
	keyRefresh = "refresh:"
	keyBrowser = "session:op:"
)

// login is a record of the store: a device, or a browser, that somebody is
// logged in with.
type login struct {
	User    string    `json:"user"`
	Device  string    `json:"device"` // what it calls itself
	From    string    `json:"from"`   // its address at its last use
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Expires time.Time `json:"expires"`
	Proof   string    `json:"proof"`           // changes with the operator's password
	Turn    int       `json:"turn"`            // how often the refresh token was exchanged
	Turned  time.Time `json:"turned,omitzero"` // when last
}

// check judges a name and a password that came from an address.
func (a *Authority) check(name, pass string, from netip.Addr) (operator, error) {
	declared := a.operators.Load()
	o, known := declared.all[name]
	if !known {
		o.secret = a.passwords.Decoy(name, declared.secrets)
	}
	right, err := a.passwords.Check(from, "operator:"+name, pass, o.secret, known)
	switch {
	case err != nil:
		return o, err
	case !right:
		return o, ErrLogin
	}
	return o, nil
}

// Known says whether an operator of that name is declared.
func (a *Authority) Known(name string) bool {
	_, known := a.operators.Load().all[name]
	return known
}

// Login lets a program in, which calls itself device. The error is ErrLogin,
// one of package password, or the store's.
func (a *Authority) Login(ctx context.Context, name, pass, device string, from netip.Addr) (Tokens, error) {
	o, err := a.check(name, pass, from)
	if err != nil {
		return Tokens{}, err
	}
	id, l := newID(), a.newLogin(name, device, from, o, RefreshLife)
	if err := a.put(ctx, keyRefresh+id, l, RefreshLife); err != nil {
		return Tokens{}, err
	}
	return a.tokens(id, l, o)
}

func (a *Authority) newLogin(name, device string, from netip.Addr, o operator, life time.Duration) login {
	now := a.now().UTC()
	return login{
		User: name, Device: device, From: from.String(), Created: now, Used: now, Expires: now.Add(life), Proof: o.proof, Turned: now,
	}
}

func (a *Authority) put(ctx context.Context, key string, l login, life time.Duration) error {
	value, err := json.Marshal(l)
	if err != nil {
		return err
	}
	done, err := a.store.Swap(ctx, key, nil, value, life)
	if err == nil && !done {
		err = errors.New("its random ID is taken")
	}
	return err
}

// tokens makes the pair of the present turn: twice the same refresh token.
func (a *Authority) tokens(id string, l login, o operator) (Tokens, error) {
	// Its ID begins with the device's: both are revoked together.
	access, err := a.sign(l.User, forAdmin, id+"."+newID()[:12], AccessLife, claims{Roles: []string{string(o.role)}, Proof: o.proof})
	if err != nil {
		return Tokens{}, err
	}
	return Tokens{
		Access: access, Refresh: refreshToken(a.keys.Load().newest(), id, l.Turn), Ends: a.now().Add(AccessLife),
		Operator: Operator{l.User, o.role, id},
	}, nil
}

// refreshToken is ID.TURN.MAC. The store has nothing of it that would make
// another.
func refreshToken(k Key, id string, turn int) string {
	n := strconv.Itoa(turn)
	return id + "." + n + "." + base64.RawURLEncoding.EncodeToString(mac(k.refresh, id, n))
}

// parseRefresh returns what a refresh token of ours says.
func (a *Authority) parseRefresh(text string) (id string, turn int, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 || len(text) > maxToken {
		return "", 0, false
	}
	turn, err := strconv.Atoi(parts[1])
	if err != nil {
		return "", 0, false
	}
	for _, k := range a.keys.Load().all {
		if same(refreshToken(k, parts[0], turn), text) {
			return parts[0], turn, true
		}
	}
	return "", 0, false
}

// Refresh exchanges a refresh token for a new pair. One that comes a second
// time within 10 s, as from two tabs at once, gets the same pair again; one
// that comes later was stolen, or its successor was: its device is logged out.
// The error is ErrToken or the store's.
func (a *Authority) Refresh(ctx context.Context, text string, from netip.Addr) (Tokens, error) {
	id, turn, ok := a.parseRefresh(text)
	if !ok {
		a.lookAgain(ctx) // the key may be another proxy's newest
		if id, turn, ok = a.parseRefresh(text); !ok {
			return Tokens{}, ErrToken
		}
	}
	var now login
	var o operator
	err := a.change(ctx, keyRefresh+id, func(old []byte) ([]byte, time.Duration, error) {
		if old == nil || json.Unmarshal(old, &now) != nil {
			return nil, 0, ErrToken
		}
		if o, ok = a.operators.Load().all[now.User]; !ok || o.proof != now.Proof {
			return nil, 0, ErrToken
		}
		switch {
		case turn == now.Turn:
		case turn == now.Turn-1 && a.now().Sub(now.Turned) <= grace:
			return nil, 0, errUnchanged
		default:
			return nil, 0, errReuse
		}
		now.Turn++
		now.Used = a.now().UTC()
		now.Turned, now.Expires, now.From = now.Used, now.Used.Add(RefreshLife), from.String()
		value, err := json.Marshal(now)
		return value, RefreshLife, err
	})
	switch {
	case errors.Is(err, errReuse):
		a.audit.Write(audit.Event{Action: audit.TokenReuse, Outcome: audit.Refused, Reason: audit.Reuse, By: now.User, From: from.String(), Target: id})
		a.log.Warn("a refresh token came a second time: its device is logged out", "operator", now.User, "device", now.Device, "from", from.String())
		if err := a.revoke(ctx, id); err != nil {
			return Tokens{}, err
		}
		return Tokens{}, ErrToken
	case err != nil && !errors.Is(err, errUnchanged):
		return Tokens{}, err
	}
	return a.tokens(id, now, o)
}

var errReuse = errors.New("a refresh token came a second time")

// Bearer judges an access token of the admin API. What its operator may do is
// what he may do now.
func (a *Authority) Bearer(ctx context.Context, text string) (Operator, error) {
	c, err := a.parse(ctx, text, forAdmin)
	if err != nil {
		return Operator{}, err
	}
	o, ok := a.operators.Load().all[c.Subject]
	if !ok || !same(o.proof, c.Proof) {
		return Operator{}, ErrToken
	}
	device, _, _ := strings.Cut(c.ID, ".")
	return Operator{c.Subject, o.role, device}, nil
}
