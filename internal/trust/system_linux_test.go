package trust

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/smallstep/truststore"
)

// newSystem has truststore keep its files in a directory of the test's, and
// rebuild the store by update-ca-certificates, which the test may write into
// tools. Nothing else is in PATH but what truststore calls.
func newSystem(t *testing.T) (anchors, tools string) {
	t.Helper()
	anchors, tools = t.TempDir(), t.TempDir()
	file, command, dirs := truststore.SystemTrustFilename, truststore.SystemTrustCommand, sbin
	t.Cleanup(func() { truststore.SystemTrustFilename, truststore.SystemTrustCommand, sbin = file, command, dirs })
	truststore.SystemTrustFilename = anchors + "/%s.crt"
	truststore.SystemTrustCommand = []string{"update-ca-certificates"}
	sbin = []string{tools}
	path := t.TempDir()
	for _, name := range []string{"sh", "tee", "rm"} {
		if err := os.Symlink(tool(t, name), filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	return anchors, tools
}

func TestTheSystemsStore(t *testing.T) {
	for _, tt := range []struct {
		name, script string // "" is no command at all
		change       func(*x509.Certificate) error
		before       bool   // whether the certificate is there
		want         string // the error, with DIR
		after        bool
	}{
		{"install by a command that is not in PATH", "exit 0", installSystem, false, "", true},
		{"uninstall by it", "[ \"$*\" = --fresh ]", uninstallSystem, true, "", false},
		{"install where the command fails", "echo no space left; exit 3", installSystem, false,
			"update-ca-certificates: exit status 3: no space left", false},
		{"install where it fails without a word", "exit 3", installSystem, false, "update-ca-certificates: exit status 3", false},
		{"uninstall where it fails", "exit 3", uninstallSystem, true, "update-ca-certificates: exit status 3", false},
		{"install where there is none", "", installSystem, false,
			"find update-ca-certificates: it is neither in PATH nor in DIR; install the package ca-certificates", false},
		{"uninstall where there is none", "", uninstallSystem, true,
			"find update-ca-certificates: it is neither in PATH nor in DIR; install the package ca-certificates", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			anchors, tools := newSystem(t)
			if tt.script != "" {
				if err := os.WriteFile(filepath.Join(tools, "update-ca-certificates"), []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cert := newRoot(t, "sessionproxy CA")
			file := filepath.Join(anchors, "sessionproxy_CA_"+cert.SerialNumber.String()+".crt")
			if tt.before {
				if err := os.WriteFile(file, pemOf(cert), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := explain(tt.change(cert)); err != nil {
				got = strings.ReplaceAll(err.Error(), tools, "DIR")
			}
			if got != tt.want {
				t.Errorf("error %q, want %q", got, tt.want)
			}
			if _, err := os.Stat(file); (err == nil) != tt.after {
				t.Errorf("the certificate is there: %t, want %t", err == nil, tt.after)
			}
		})
	}
}
