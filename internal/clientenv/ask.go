package clientenv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// ask asks the running proxy for its ports, and returns the one that fits and
// the CA to trust.
func (s Source) ask(ctx context.Context, addr, state string) (proxyURL, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	token, err := admin.ReadToken(state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return proxyURL{}, nil, fmt.Errorf("%w; no proxy has run with this directory: name another with --state, or the proxy with --listen", err)
	case errors.Is(err, fs.ErrPermission):
		return proxyURL{}, nil, fmt.Errorf("%w; only the user that runs the proxy can read it: name the proxy with --listen, and with --state a directory of yours that has a copy of its ca.pem", err)
	case err != nil:
		return proxyURL{}, nil, err
	}
	api := admin.Client{Addr: addr, Token: token}
	body, err := api.Do(ctx, http.MethodGet, admin.Path("proxy"), nil)
	if err != nil {
		return proxyURL{}, nil, fmt.Errorf("ask the proxy for its ports: %w", remedied(addr, err))
	}
	var p admin.Proxy
	if err := json.Unmarshal(body, &p); err != nil {
		return proxyURL{}, nil, fmt.Errorf("ask the proxy for its ports: %s answers something else: %w", addr, err)
	}
	proxy, err := s.choose(p)
	if err != nil {
		return proxyURL{}, nil, err
	}
	ca, err := ReadCA(state)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the operator's own CA lies where its setting says
		ca, err = api.Do(ctx, http.MethodGet, "/ca.pem", nil)
		if err != nil {
			return proxyURL{}, nil, fmt.Errorf("ask the proxy for its CA: %w", remedied(addr, err))
		}
	case err != nil:
		return proxyURL{}, nil, err
	}
	if got := admin.Fingerprint(ca); got != p.CASHA256 {
		return proxyURL{}, nil, fmt.Errorf("the proxy at %s does not sign with %s; name its directory with --state or, where its ca: setting took the place of that CA, remove ca.pem and ca.key there",
			addr, filepath.Join(state, "ca.pem"))
	}
	return proxy, ca, nil
}

// choose picks the port that leaves the least to be said by a user name, for
// some clients send none. Of several it is one that asks where something is
// left, because some send it only when asked, and one that does not where
// nothing is; then one without TLS, which some cannot speak to a proxy; then
// the first.
func (s Source) choose(running admin.Proxy) (proxyURL, error) {
	declares := len(running.Clients) > 0
	known := !declares || slices.Contains(running.Clients, cmp.Or(s.Client, nobody))
	knows := "it knows " + strings.Join(running.Clients, ", ")
	if s.Client != "" && !known {
		return proxyURL{}, fmt.Errorf("the proxy has no client %s; %s", s.Client, knows)
	}
	fit := slices.DeleteFunc(slices.Clone(running.Listeners), func(l admin.Listener) bool {
		return l.Client != "" && l.Client != s.Client || l.Session != "" && l.Session != s.Session
	})
	if len(fit) == 0 {
		return proxyURL{}, errors.New("each port of the proxy is pinned to another client or session: name one with --client and --session, or a port with --listen")
	}
	rank := func(l admin.Listener) []int {
		left := s.left(l)
		return []int{left, one(asks(l) != (left > 0)), one(l.TLS)}
	}
	best := slices.MinFunc(fit, func(a, b admin.Listener) int { return slices.Compare(rank(a), rank(b)) })
	left := s.left(best)
	if asks(best) && left == 0 {
		return proxyURL{}, errors.New("each port of the proxy asks for a name: give one with --client, and its password with --password-file or SESSIONPROXY_PASSWORD")
	}
	addr, err := parseAddr(best.Addr)
	if err != nil {
		return proxyURL{}, fmt.Errorf("ask the proxy for its ports: %w", err)
	}
	p := proxyURL{tls: best.TLS, addr: addr}
	if left > 0 {
		p.user = userName(s.Client, s.Worker, s.Session)
		p.checked = declares && best.Client == ""
	}
	if p.checked && !known {
		return proxyURL{}, fmt.Errorf("the proxy takes --worker and --session from its clients only: name one with --client; %s", knows)
	}
	return p, nil
}

// left counts the selectors that a user name has to say at port l.
func (s Source) left(l admin.Listener) int {
	return one(s.Client != "" && l.Client == "") + one(s.Worker != "") + one(s.Session != "" && l.Session == "")
}

func asks(l admin.Listener) bool { return l.Auth == config.AuthAsk }

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// remedied says what to do where the admin API at addr did not tell.
func remedied(addr string, err error) error {
	switch p, answered := errors.AsType[*admin.Problem](err); {
	case !answered:
		return fmt.Errorf("%s: %w; start it, or name its admin API with --admin or its port with --listen", addr, err)
	case p.Status == http.StatusUnauthorized:
		return fmt.Errorf("%s takes another admin token; name the state directory of the proxy that runs there with --state", addr)
	}
	return fmt.Errorf("%s: %w; this is no admin API of a sessionproxy that can tell: name one with --admin, or the proxy with --listen", addr, err)
}
