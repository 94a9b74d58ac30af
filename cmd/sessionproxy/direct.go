package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/clientenv"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "configuration `FILE` that says whose hosts are the site's, where no proxy runs")
}

// proxyRuns says whether the proxy of the state directory answers. One that is
// named is taken to: what is wrong with it, the next call tells.
func (a *api) proxyRuns(c *cobra.Command) (bool, error) {
	addr, err := clientenv.AdminAddr(a.admin, a.lookupEnv)
	switch {
	case err != nil && a.admin != "":
		return false, usageError{err, c.CommandPath()}
	case err != nil:
		return false, err
	case a.admin != "", a.token != "":
		return true, nil
	}
	token, err := a.readToken()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // none has run with this directory
	} else if err != nil {
		return false, err
	}
	_, err = admin.Client{Addr: addr, Token: token}.Do(c.Context(), http.MethodGet, admin.Path("version"), nil)
	p, answered := errors.AsType[*admin.Problem](err)
	return err == nil || answered && p.Status != http.StatusUnauthorized, nil // a 401 is of another proxy
}

// direct is a session in a store that no proxy has open.
type direct struct {
	store   *embedded.Store
	dir     string
	sites   []config.Site
	site    config.Site
	session string
}

// openStore opens the embedded store of the state directory, and finds the
// session that is meant. A store that is not there is made only where a
// directory is named.
func (a *api) openStore(c *cobra.Command, configFile string, create bool) (d *direct, err error) {
	d = &direct{session: a.session}
	if d.session == "" {
		d.session = session.DefaultID
	}
	if d.session == session.NoneID || !session.ValidID(d.session) {
		return nil, usageError{fmt.Errorf("--session %s: an ID is 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, and not none", d.session), c.CommandPath()}
	}
	if configFile != "" {
		conf, err := config.Load(config.Source{File: configFile, LookupEnv: a.lookupEnv, Flags: config.Flags{State: a.state}})
		if err != nil {
			return nil, err
		}
		if url := conf.Store.URL; url != "" && url != "embedded" {
			return nil, errors.New("no proxy runs, and the configuration's store is no file of this machine's: start the proxy")
		}
		d.dir, d.sites = conf.State, conf.Sites
	} else if d.dir, err = clientenv.StateDir(a.state, a.lookupEnv); err != nil {
		return nil, err
	}
	file := filepath.Join(d.dir, "store.db")
	if _, err := os.Stat(file); err != nil {
		named := a.state != "" || configFile != ""
		if !errors.Is(err, fs.ErrNotExist) || !create || !named {
			return nil, fmt.Errorf("no proxy runs, and there is no store: %w; start the proxy, or name its state directory with --state", err)
		}
		if err := makeState(d.dir); err != nil {
			return nil, err
		}
	}
	if d.store, err = embedded.Open(file); err != nil {
		return nil, fmt.Errorf("%w; where that is a running proxy, name its admin API with --admin", err)
	}
	if err := d.choose(c, a.site); err != nil {
		return nil, errors.Join(err, d.store.Close())
	}
	return d, nil
}

// choose finds the site of a name, "" the only one. Without a configuration it
// is as "serve --share" declares it.
func (d *direct) choose(c *cobra.Command, name string) error {
	if d.sites == nil {
		if name == "" {
			var err error
			if name, err = d.onlyKey(c); err != nil {
				return err
			}
		}
		conf, err := config.Load(config.Source{LookupEnv: func(string) (string, bool) { return "", false }, Flags: config.Flags{Share: []string{name}}})
		if err != nil {
			return fmt.Errorf("--site %s: %w", name, err)
		}
		d.sites, d.site = conf.Sites, conf.Sites[0]
		return nil
	}
	var names []admin.Site
	for _, s := range d.sites {
		names = append(names, admin.Site{Name: s.Name})
		if s.Name == name || name == "" && len(d.sites) == 1 {
			d.site = s
			return nil
		}
	}
	if name == "" {
		_, err := onlySite(names)
		return usageError{err, c.CommandPath()}
	}
	return usageError{fmt.Errorf("--site %s: the configuration declares no such site", name), c.CommandPath()}
}

// onlyKey is the key of the only site that has sessions in the store.
func (d *direct) onlyKey(c *cobra.Command) (string, error) {
	infos, err := d.store.List(c.Context(), "")
	if err != nil {
		return "", err
	}
	var keys []string
	for _, i := range infos {
		if len(keys) == 0 || keys[len(keys)-1] != i.Key.Site {
			keys = append(keys, i.Key.Site)
		}
	}
	switch len(keys) {
	case 0:
		return "", usageError{errors.New("no proxy runs, and the store is empty: say with --site HOST, or with --config FILE, whose session is meant"), c.CommandPath()}
	case 1:
		return keys[0], nil
	}
	return "", usageError{fmt.Errorf("no proxy runs; say with --site which is meant: %s", strings.Join(keys, ", ")), c.CommandPath()}
}

// answer closes the store, and returns what the API would have answered with v.
func (d *direct) answer(c *cobra.Command, v any, err error) ([]byte, error) {
	if err := errors.Join(err, d.store.Close()); err != nil {
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "No proxy runs with %s: its store was opened directly.\n", d.dir)
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}
