package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/clientenv"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session"
)

// api asks a running proxy by its admin API: the flags of the commands that
// do.
type api struct {
	lookupEnv func(string) (string, bool)

	admin, state, token string
	site, session       string
	json                bool
	limit               time.Duration // of a call; 0: the client's own
}

// The flags that more than one command has, and where their values come from
// without them.
const (
	adminUsage   = "`ADDR` of the admin API (default: SESSIONPROXY_ADMIN, else 127.0.0.1:8081)"
	stateDefault = "(default: SESSIONPROXY_STATE, else ./state)"
)

func (a *api) flags(cmd *cobra.Command) {
	a.siteFlags(cmd)
	cmd.PersistentFlags().StringVar(&a.session, "session", "", "`ID` of the session (default \""+session.DefaultID+"\")")
}

// siteFlags are those of commands that are about no session.
func (a *api) siteFlags(cmd *cobra.Command) {
	a.adminFlags(cmd)
	cmd.PersistentFlags().StringVar(&a.site, "site", "", "`NAME` of the site (default: the only one)")
}

// adminFlags are those of commands that are about no site.
func (a *api) adminFlags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&a.admin, "admin", "", adminUsage)
	f.StringVar(&a.state, "state", "", "`DIR` of the admin token "+stateDefault)
	f.StringVar(&a.token, "token", "", "the admin `TOKEN`, or an operator's, itself (default: that in --state, or of \"operators login\"); other users of this machine may see it")
	f.BoolVar(&a.json, "json", false, "print the API's own answer")
}

// do makes one call, see [admin.Client.Do].
func (a *api) do(c *cobra.Command, method, path string, body any) ([]byte, error) {
	addr, err := a.addr(c)
	if err != nil {
		return nil, err
	}
	token, err := a.credential(c, addr)
	if err != nil {
		return nil, err
	}
	answer, err := admin.Client{Addr: addr, Token: token, Limit: a.limit}.Do(c.Context(), method, path, body)
	if err != nil {
		return nil, a.remedied(addr, err)
	}
	return answer, nil
}

// addr is where the admin API is.
func (a *api) addr(c *cobra.Command) (string, error) {
	addr, err := clientenv.AdminAddr(a.admin, a.lookupEnv)
	if err != nil && a.admin != "" {
		return "", usageError{err, c.CommandPath()}
	}
	return addr, err
}

func (a *api) readToken() (string, error) {
	state, err := clientenv.StateDir(a.state, a.lookupEnv)
	if err != nil {
		return "", err
	}
	token, err := admin.ReadToken(state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w; no proxy has run with this directory: name another with --state", err)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("%w; only the user that runs the proxy can read it", err)
	}
	return token, err
}

// remedied says what to do where the API at addr did not do what was asked.
func (a *api) remedied(addr string, err error) error {
	p, answered := errors.AsType[*admin.Problem](err)
	switch {
	case errors.Is(err, admin.ErrInClear):
		return fmt.Errorf("ask the proxy at %s: %w", addr, err)
	case !answered:
		return fmt.Errorf("ask the proxy at %s: %w; start it, or name its admin API with --admin", addr, err)
	case p.Code == "not_found": // no such path: the ops port, or another version's API
		return fmt.Errorf("ask the proxy at %s: it has no such call; name the admin API of a proxy of this version with --admin", addr)
	case p.Code == "":
		return fmt.Errorf("ask the proxy at %s: %w; this is no admin API of a sessionproxy: name it with --admin", addr, err)
	case p.Status == http.StatusUnauthorized && a.token != "":
		return fmt.Errorf("ask the proxy at %s: it takes another token than that of --token", addr)
	case p.Status == http.StatusUnauthorized:
		return fmt.Errorf("ask the proxy at %s: it takes another token; name the state directory of the proxy that runs there with --state", addr)
	case p.Status == http.StatusMisdirectedRequest:
		return fmt.Errorf("ask the proxy at %s: %w", addr, err)
	}
	return err
}

// sessionPath is the path of the session that is meant, and of a part of it.
func (a *api) sessionPath(c *cobra.Command, part ...string) (string, error) {
	site, err := a.siteName(c)
	if err != nil {
		return "", err
	}
	id := a.session
	if id == "" {
		id = session.DefaultID
	}
	return admin.Path(append([]string{"sessions", site, id}, part...)...), nil
}

// siteName is the name of the site that is meant.
func (a *api) siteName(c *cobra.Command) (string, error) {
	if a.site != "" {
		return a.site, nil
	}
	b, err := a.do(c, http.MethodGet, admin.Path("sites"), nil)
	if err != nil {
		return "", err
	}
	declared, err := decode[admin.Sites](b)
	if err != nil {
		return "", err
	}
	site, err := onlySite(declared.Sites)
	if err != nil {
		return "", usageError{err, c.CommandPath()}
	}
	return site, nil
}

func onlySite(sites []admin.Site) (string, error) {
	if len(sites) == 1 {
		return sites[0].Name, nil
	}
	var names []string
	for _, s := range sites {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return "", errors.New("the proxy declares no site: say with --site which is meant")
	}
	return "", fmt.Errorf("say with --site which is meant: %s", strings.Join(names, ", "))
}

// report prints what the API answered: as it is for --json, else as show does.
func report[T any](a *api, w io.Writer, answer []byte, show func(io.Writer, T) error) error {
	if a.json {
		_, err := w.Write(answer)
		return err
	}
	v, err := decode[T](answer)
	if err != nil {
		return err
	}
	return show(w, v)
}

func decode[T any](answer []byte) (v T, err error) {
	if err := json.Unmarshal(answer, &v); err != nil {
		return v, fmt.Errorf("read the proxy's answer: %w", err)
	}
	return v, nil
}

// table writes rows of cells in columns.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// printable is text of a site's as a terminal may have it: a cookie's name or
// path can hold what moves the cursor.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func cookieName(name string) string {
	if name == "" {
		return "(nameless)"
	}
	return printable(name)
}

// span is a duration in its largest unit. One that is over is none.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// counted is n cookies in words.
func counted(n int) string {
	switch n {
	case 0:
		return "no cookies"
	case 1:
		return "1 cookie"
	}
	return fmt.Sprintf("%d cookies", n)
}
