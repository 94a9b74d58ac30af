package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// openAccess makes what says who may come in, and what writes it down.
func (i *instance) openAccess(stdout io.Writer) (err error) {
	c := i.config
	if i.audit, err = audit.Open(audit.Options{To: c.Audit.To, Stdout: stdout, Log: i.log, Metrics: i.registry}); err != nil {
		return fmt.Errorf("%w; name another file, or stdout, with audit.to", err)
	}
	keys, err := signingKeys(c.Auth.Keys)
	if err != nil {
		return err
	}
	seal, err := i.authority.Secret("sessionproxy access")
	if err != nil {
		return err
	}
	if i.grants, err = i.openGrants(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	i.access, err = access.New(ctx, access.Options{
		Store: i.grants, Keys: keys, Seal: seal, Operators: c.Auth.Operators, Token: i.token,
		Passwords: password.NewVerifier(), Audit: i.audit, Log: i.log,
	})
	if err != nil {
		return err
	}
	i.events = admin.NewEvents(i.access)
	i.audit.Tee(i.events.Tell)
	return nil
}

// closeAccess frees what openAccess took.
func (i *instance) closeAccess() {
	if i.events != nil {
		i.audit.Tee(nil)
		i.events.Close()
	}
	if i.access != nil {
		i.access.Close()
	}
	if i.grants != nil {
		if err := i.grants.Close(); err != nil {
			i.log.Error("close access store", "err", err)
		}
	}
	if err := i.audit.Close(); err != nil {
		i.log.Error("close audit log", "err", err)
	}
}

func signingKeys(files []string) ([]access.Key, error) {
	var keys []access.Key
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read auth.keys: %w", err)
		}
		key, err := access.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("read auth.keys: %s: %w", file, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// workers are those that the proxy has seen, for the admin API.
func (i *instance) workers() []admin.Worker {
	var all []admin.Worker
	for _, w := range i.proxy.Workers() {
		all = append(all, admin.Worker{
			Client: w.Client, Worker: w.Name, From: w.From, Site: w.Site, Session: w.Session,
			Requests: w.Requests, First: w.First, Last: w.Last,
		})
	}
	return all
}

// loaded is how the configuration was read last, for the admin API.
type loaded struct {
	at     time.Time // of the one in force
	faults config.Faults
}

// loadedConfig shows it.
func (i *instance) loadedConfig() admin.Config {
	l := i.loaded.Load()
	shown := admin.Config{Loaded: l.at}
	for _, f := range l.faults {
		shown.Faults = append(shown.Faults, admin.Fault{Where: f.Where, Message: f.Message, Remedy: f.Remedy})
	}
	return shown
}
