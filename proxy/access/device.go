package access

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Device is what an operator is logged in with.
type Device struct {
	ID       string
	Operator string
	Name     string // what it calls itself
	Browser  bool   // by a cookie
	From     string // its address at its last use
	Created  time.Time
	Used     time.Time
	Expires  time.Time // unless it is used
}

// Devices lists what operators are logged in with, by operator and last use.
func (a *Authority) Devices(ctx context.Context) ([]Device, error) {
	var all []Device
	err := a.eachLogin(ctx, func(id string, browser bool, l login) {
		all = append(all, Device{id, l.User, l.Device, browser, l.From, l.Created, l.Used, l.Expires})
	})
	slices.SortFunc(all, func(a, b Device) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), b.Used.Compare(a.Used), cmp.Compare(a.ID, b.ID))
	})
	return all, err
}

// eachLogin calls f with each record of a device.
func (a *Authority) eachLogin(ctx context.Context, f func(id string, browser bool, l login)) error {
	for _, prefix := range []string{keyRefresh, keyBrowser} {
		records, err := a.store.List(ctx, prefix)
		if err != nil {
			return err
		}
		for key, value := range records {
			var l login
			if json.Unmarshal(value, &l) == nil {
				f(strings.TrimPrefix(key, prefix), prefix == keyBrowser, l)
			}
		}
	}
	return nil
}

// RevokeDevice logs a device out, with the access tokens that it has. One that
// is not there is logged out, too.
func (a *Authority) RevokeDevice(ctx context.Context, id string) error { return a.revoke(ctx, id) }

// RevokeOperator logs out all of an operator's devices, and says how many.
func (a *Authority) RevokeOperator(ctx context.Context, name string) (int, error) {
	return a.revokeAll(ctx, func(l login) bool { return l.User == name })
}

// revokeAll logs out the devices that are meant, and says how many.
func (a *Authority) revokeAll(ctx context.Context, meant func(login) bool) (int, error) {
	var ids []string
	err := a.eachLogin(ctx, func(id string, _ bool, l login) {
		if meant(l) {
			ids = append(ids, id)
		}
	})
	if err != nil {
		return 0, err
	}
	for n, id := range ids {
		if err := a.revoke(ctx, id); err != nil {
			return n, err
		}
	}
	return len(ids), nil
}

// revoke denies first, for a little longer than a token lives: one that is just
// being made comes under it, too.
func (a *Authority) revoke(ctx context.Context, id string) error {
	if err := a.deny(ctx, id, a.now().Add(AccessLife+skew)); err != nil {
		return err
	}
	remove := func([]byte) ([]byte, time.Duration, error) { return nil, 0, nil }
	for _, prefix := range []string{keyRefresh, keyBrowser} {
		if err := a.change(ctx, prefix+id, remove); err != nil {
			return err
		}
	}
	return nil
}
