package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// savedLogin is what this user is logged in with at one proxy.
type savedLogin struct {
	Name    string    `json:"name"`
	Access  string    `json:"access"`
	Ends    time.Time `json:"ends"` // of Access
	Refresh string    `json:"refresh"`
}

// logins are those of this user, by the address of the admin API.
type logins struct {
	file string
	all  map[string]savedLogin
}

// readLogins reads the user's file. There may be none.
func (a *api) readLogins() (*logins, error) {
	dir, _ := a.lookupEnv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return nil, fmt.Errorf("find where logins are kept: %w", err)
		}
	}
	l := &logins{file: filepath.Join(dir, "sessionproxy", "logins.json"), all: map[string]savedLogin{}}
	info, err := os.Stat(l.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return l, nil
	case err != nil:
		return nil, fmt.Errorf("read logins: %w", err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("read logins: %s: mode %04o opens them to other users; chmod 600 %[1]s, and log in anew", l.file, info.Mode().Perm())
	}
	b, err := os.ReadFile(l.file)
	if err == nil {
		err = json.Unmarshal(b, &l.all)
	}
	if err != nil {
		return nil, fmt.Errorf("read logins: %s: %w; remove it, and log in anew", l.file, err)
	}
	return l, nil
}

func (l *logins) write() error {
	b, err := json.Marshal(l.all)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(l.file), 0o700)
	}
	if err == nil {
		err = replaceFile(l.file, b)
	}
	if err != nil {
		return fmt.Errorf("keep the login: %w", err)
	}
	return nil
}

func (l *logins) keep(addr string, in admin.LoggedIn) error {
	l.all[addr] = savedLogin{in.Name, in.AccessToken, time.Now().Add(time.Duration(in.ExpiresIn) * time.Second), in.RefreshToken}
	return l.write()
}

func (l *logins) drop(addr string) error {
	delete(l.all, addr)
	return l.write()
}

// spare is how much of an access token's life has to be left for a call.
const spare = 30 * time.Second

// credential is what a call brings along: --token, else the admin token of a
// state directory that is named, else what this user is logged in with there,
// else the admin token of ./state.
func (a *api) credential(c *cobra.Command, addr string) (string, error) {
	if a.token != "" {
		return a.token, nil
	}
	if _, named := a.lookupEnv("SESSIONPROXY_STATE"); a.state != "" || named {
		return a.readToken()
	}
	l, err := a.readLogins()
	if err != nil {
		return "", err
	}
	in, ok := l.all[addr]
	switch {
	case !ok:
		return a.readToken()
	case time.Until(in.Ends) > spare:
		return in.Access, nil
	}
	b, err := admin.Client{Addr: addr}.Do(c.Context(), http.MethodPost, admin.Path("refresh"), admin.Refresh{RefreshToken: in.Refresh})
	if p, answered := errors.AsType[*admin.Problem](err); answered && p.Status == http.StatusUnauthorized {
		return "", errors.Join(fmt.Errorf("%s is no longer logged in at %s: sessionproxy operators login %[1]s --admin %[2]s", in.Name, addr), l.drop(addr))
	}
	if err != nil {
		return "", a.remedied(addr, err)
	}
	fresh, err := decode[admin.LoggedIn](b)
	if err != nil {
		return "", err
	}
	return fresh.AccessToken, l.keep(addr, fresh)
}
