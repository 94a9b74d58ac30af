package clientenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// Source says which proxy is meant, and who comes to it. What is empty was not
// given.
type Source struct {
	Listen string // HOST:PORT or https://HOST:PORT of the proxy; "" asks the admin API
	Admin  string // HOST:PORT of the admin API; else SESSIONPROXY_ADMIN, else 127.0.0.1:8081
	State  string // directory with the CA and the admin token; else SESSIONPROXY_STATE, else ./state

	Client, Worker, Session string // selectors
	PasswordFile            string // its first line; else SESSIONPROXY_PASSWORD

	LookupEnv func(string) (string, bool) // [os.LookupEnv]
}

// Check says what is wrong with what was given, by the names of the flags.
func (s Source) Check() error {
	for _, id := range []struct{ flag, value string }{{"--client", s.Client}, {"--worker", s.Worker}, {"--session", s.Session}} {
		if id.value == "" {
			continue
		}
		if err := checkID(id.flag, id.value); err != nil {
			return err
		}
	}
	if s.Admin != "" {
		if _, err := parseAddr(strings.TrimPrefix(s.Admin, "https://")); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
	}
	if s.Listen != "" {
		if _, err := parseProxy(s.Listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
	}
	return nil
}

// Vars finds the proxy, writes the files that clients need into the state
// directory, and returns the variables that name them, in a fixed order.
func (s Source) Vars(ctx context.Context) ([]Var, error) {
	state, err := StateDir(s.State, s.LookupEnv)
	if err != nil {
		return nil, err
	}
	set := settings{lookup: s.LookupEnv}
	if set.admin, err = AdminAddr(s.Admin, s.LookupEnv); err != nil {
		return nil, err
	}
	var ca []byte
	if s.Listen != "" {
		set.proxy, err = parseProxy(s.Listen)
		if err != nil {
			return nil, err
		}
		set.proxy.user = userName(s.Client, s.Worker, s.Session)
		ca, err = ReadCA(state)
	} else {
		set.proxy, ca, err = s.ask(ctx, set.admin, state)
	}
	if err != nil {
		return nil, err
	}
	if set.proxy.user != "" {
		if set.proxy.password, err = s.password(); err != nil {
			return nil, err
		}
		if set.proxy.checked && set.proxy.password == "" {
			return nil, fmt.Errorf("the client %s has a password: set SESSIONPROXY_PASSWORD or give --password-file", cmp.Or(s.Client, nobody))
		}
	}
	if err := set.writeFiles(state, ca); err != nil {
		return nil, err
	}
	return set.vars(), nil
}

// AdminAddr returns the address of the admin API: HOST:PORT, or https:// and
// that.
func AdminAddr(flag string, lookupEnv func(string) (string, bool)) (string, error) {
	if flag == "" {
		flag, _ = lookupEnv("SESSIONPROXY_ADMIN")
	}
	rest, https := strings.CutPrefix(cmp.Or(flag, "127.0.0.1:8081"), "https://")
	addr, err := parseAddr(strings.TrimSuffix(rest, "/"))
	if err != nil {
		return "", fmt.Errorf("find the admin API: %w", err)
	}
	if https {
		addr = "https://" + addr
	}
	return addr, nil
}

// StateDir returns the absolute path of the state directory: a program that is
// told of files in it may run elsewhere.
func StateDir(flag string, lookupEnv func(string) (string, bool)) (string, error) {
	if flag == "" {
		flag, _ = lookupEnv("SESSIONPROXY_STATE")
	}
	dir, err := filepath.Abs(cmp.Or(flag, "state"))
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	if strings.ContainsAny(dir, "\r\n\x00") {
		return "", fmt.Errorf("find the state directory: %q holds a line break, which some clients' files can't", dir)
	}
	return dir, nil
}

// ReadCA returns the certificate in the state directory that clients are to
// trust.
func ReadCA(state string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(state, "ca.pem"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the CA: %w; start a proxy once, which makes it, or name its directory with --state", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the CA: %w", err)
	}
	if admin.Fingerprint(b) == "" {
		return nil, fmt.Errorf("read the CA: %s: no PEM certificate in it", filepath.Join(state, "ca.pem"))
	}
	return b, nil
}

// password is never a flag's value: other users see command lines.
func (s Source) password() (string, error) {
	if s.PasswordFile == "" {
		return s.env("SESSIONPROXY_PASSWORD"), nil
	}
	b, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

func (s Source) env(name string) string {
	value, _ := s.LookupEnv(name)
	return value
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
