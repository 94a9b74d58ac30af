package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	captcharedis "github.com/sessionproxy/sessionproxy/captcha/redispool"
	widgetsfile "github.com/sessionproxy/sessionproxy/captcha/sightings/filestore"
	widgetsredis "github.com/sessionproxy/sessionproxy/captcha/sightings/redisstore"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
	accessredis "github.com/sessionproxy/sessionproxy/proxy/access/redisstore"
	"github.com/sessionproxy/sessionproxy/proxy/group"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	leaseredis "github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

// What proxies share beside sessions lives in the same Redis. Without one it is
// this process's own.

// redisLimit bounds what a login waits for Redis: the budget of a request.
const redisLimit = 250 * time.Millisecond

// tokenStore keeps solved captcha tokens.
func (i *instance) tokenStore() captcha.Store {
	if i.client == nil {
		return captcha.NewMemory()
	}
	return captcharedis.New(i.client.UniversalClient, i.config.Store.Prefix)
}

// openWidgets opens what keeps which captchas pages show.
func (i *instance) openWidgets() error {
	if i.client != nil {
		i.widgets = widgetsredis.New(i.client.UniversalClient, i.config.Store.Prefix)
		return nil
	}
	file, err := widgetsfile.Open(filepath.Join(i.config.State, "captchas.db"))
	if err != nil {
		return err
	}
	i.widgets = file
	return nil
}

// leases say who leaves by which upstream; nil: the proxy keeps its own.
func (i *instance) leases() upstream.Ledger {
	if i.client == nil {
		return nil
	}
	return leaseredis.New(leaseredis.Options{
		Client: i.client.UniversalClient, Prefix: i.config.Store.Prefix, Log: i.log,
		New:       i.authority.New(), // proxies on one Redis sign with one CA
		LeaseTime: upstream.LeaseTime, ForeignTime: leaseredis.ForeignTime,
	})
}

// locks say whose turn it is to log in; nil: the proxy keeps its own.
func (i *instance) locks() login.Locks {
	if i.client == nil {
		return nil
	}
	return redislock.New(i.client.UniversalClient, i.config.Store.Prefix, redisLimit)
}

// joinGroup tells the other proxies on the same Redis of this one.
func (i *instance) joinGroup() {
	o := group.Options{Admin: i.admin.Addr().String(), Version: versionString(), Log: i.log}
	o.Host, _ = os.Hostname() // without one, its address says which it is
	_, o.Bounds = i.proxy.Counts()
	o.Count = func() group.Counts {
		counts, _ := i.proxy.Counts()
		return counts
	}
	if i.client != nil {
		o.Store = i.grants
	}
	i.group = group.Join(o)
}

// openGrants opens what keeps operators' devices and revocations.
func (i *instance) openGrants() (access.Store, error) {
	if i.client == nil {
		return filestore.Open(filepath.Join(i.config.State, "access.db"))
	}
	return accessredis.New(i.client.UniversalClient, i.config.Store.Prefix), nil
}
