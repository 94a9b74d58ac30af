package clientenv

import (
	"bytes"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/certs"
)

func TestSourceCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		source Source
		want   string
	}{
		{"nothing given", Source{}, ""},
		{"all given", Source{Listen: "https://h:1", Admin: "localhost:2", Client: "a", Worker: "b", Session: "c"}, ""},
		{"a client with a colon", Source{Client: "a:b"}, `--client "a:b": an ID is 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -`},
		{"a worker with the mark of a session", Source{Worker: "a-session-b"}, `--worker "a-session-b": -session- parts a user name, so an ID cannot hold it`},
		{"a session with a space", Source{Session: "a b"}, `--session "a b": an ID is 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -`},
		{"an address without a port", Source{Listen: "h"}, `--listen: "h" is no address: write HOST:PORT`},
		{"an admin API with a scheme", Source{Admin: "http://h:1"}, `--admin: "http://h:1" is no address: write HOST:PORT`},
	} {
		got := ""
		if err := tt.source.Check(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// newState is a state directory with a CA, and the roots of a caller.
func newState(t *testing.T, name string) (state string, ca []byte, roots string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), name)
	authority, err := certs.Open(state, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	roots = filepath.Join(t.TempDir(), "roots.pem")
	write(t, roots, "# corporate\n"+string(other.PEM()))
	return state, authority.PEM(), roots
}

func TestTheBundleIsTheRootsAndTheCA(t *testing.T) {
	t.Parallel()
	state, ca, roots := newState(t, "state")
	own, err := os.ReadFile(roots)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		environ map[string]string
		plain   bool // under its usual name
	}{
		{"the system's", nil, true},
		{"those that SSL_CERT_FILE names", map[string]string{"SSL_CERT_FILE": roots}, false},
		{"the system's again, where it names our own bundle", map[string]string{"SSL_CERT_FILE": filepath.Join(state, "ca-bundle.pem")}, true},
	} {
		source := Source{Listen: "127.0.0.1:8080", State: state, LookupEnv: env(tt.environ)}
		vars, err := source.Vars(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		bundle := value(t, vars, "SSL_CERT_FILE")
		if plain := bundle == filepath.Join(state, "ca-bundle.pem"); plain != tt.plain {
			t.Errorf("%s: the bundle is %s", tt.name, bundle)
		}
		b, err := os.ReadFile(bundle)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(b, ca) || len(b) == len(ca) {
			t.Errorf("%s: the bundle does not end with our CA after others", tt.name)
		}
		block, _ := pem.Decode(own)
		if has := bytes.Contains(b, pem.EncodeToMemory(block)); has == tt.plain {
			t.Errorf("%s: the caller's root is in the bundle: %t", tt.name, has)
		}
	}
}

func TestFilesAreWrittenOnceAndForAll(t *testing.T) {
	t.Parallel()
	state, _, roots := newState(t, `o'b "x" $y`)
	source := Source{Listen: "127.0.0.1:8080", State: state, LookupEnv: env(map[string]string{"SSL_CERT_FILE": roots})}
	vars, err := source.Vars(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bundle := value(t, vars, "SSL_CERT_FILE")
	base := strings.TrimSuffix(bundle, ".pem")
	texts := map[string]string{
		base + ".wgetrc": "ca_certificate = " + bundle + "\n",
		base + ".php.d/sessionproxy.ini": strings.ReplaceAll("curl.cainfo = \"DIR\"\nopenssl.cafile = \"DIR\"\n", "DIR",
			strings.NewReplacer(`"`, `\"`, `$`, `\$`).Replace(bundle)),
	}
	for path, want := range texts {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", filepath.Base(path), got, err, want)
		}
	}

	var before []os.FileInfo
	files := []string{bundle, base + ".p12", base + ".wgetrc", base + ".php.d/sessionproxy.ini"}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o644 {
			t.Errorf("%s has mode %04o, want 0644", f, got)
		}
		before = append(before, info)
	}
	if _, err := source.Vars(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if info, err := os.Stat(f); err != nil || !os.SameFile(info, before[i]) {
			t.Errorf("%s was written again (%v), and nothing had changed", f, err)
		}
	}
	// What was changed by others is put right, and no draft stays.
	write(t, bundle, "cut")
	if _, err := source.Vars(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(bundle); err != nil || string(b) == "cut" {
		t.Errorf("the bundle was left as %q (%v)", b, err)
	}
	err = filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") {
			t.Errorf("%s was left behind", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestThePassword(t *testing.T) {
	t.Parallel()
	state, _, roots := newState(t, "state")
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "from file \r\nsecond line\n")
	for _, tt := range []struct{ name, client, file, variable, want string }{
		{"that of the variable", "crawler", "", "p w", "http://crawler:p%20w@h:1"},
		{"the file's first line comes before it", "crawler", file, "other", "http://crawler:from%20file%20@h:1"},
		{"without a name none is sent", "", file, "other", "http://h:1"},
		{"none", "crawler", "", "", "http://crawler:x@h:1"},
	} {
		source := Source{Listen: "h:1", State: state, Client: tt.client, PasswordFile: tt.file,
			LookupEnv: env(map[string]string{"SSL_CERT_FILE": roots, "SESSIONPROXY_PASSWORD": tt.variable})}
		vars, err := source.Vars(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := value(t, vars, "https_proxy"); got != tt.want {
			t.Errorf("%s: https_proxy=%s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestVarsReports(t *testing.T) {
	t.Parallel()
	state, _, roots := newState(t, "state")
	empty := t.TempDir()
	for _, tt := range []struct {
		name    string
		source  Source
		environ map[string]string
		want    string
	}{
		{"no CA yet", Source{Listen: "h:1", State: empty}, nil,
			"read the CA: open " + empty + "/ca.pem: no such file or directory; start a proxy once, which makes it, or name its directory with --state"},
		{"a state directory from the environment", Source{Listen: "h:1"}, map[string]string{"SESSIONPROXY_STATE": empty},
			"read the CA: open " + empty + "/ca.pem: no such file or directory; start a proxy once, which makes it, or name its directory with --state"},
		{"a path that no file of clients could name", Source{Listen: "h:1", State: "a\nb"}, nil, `holds a line break, which some clients' files can't`},
		{"a wrong admin API from the environment", Source{State: state}, map[string]string{"SESSIONPROXY_ADMIN": "8081"},
			`find the admin API: "8081" is no address: write HOST:PORT`},
		{"a password file that is missing", Source{Listen: "h:1", State: state, Client: "a", PasswordFile: empty + "/none"}, map[string]string{"SSL_CERT_FILE": roots},
			"read the password: open " + empty + "/none: no such file or directory"},
		{"roots that are missing", Source{Listen: "h:1", State: state}, map[string]string{"SSL_CERT_FILE": empty + "/none.pem"},
			"read roots: open " + empty + "/none.pem: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.source.LookupEnv = env(tt.environ)
			if _, err := tt.source.Vars(t.Context()); err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
