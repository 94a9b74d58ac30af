package trust

import (
	"crypto/x509"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/smallstep/truststore"
)

// sbin are where the command that rebuilds the store lies. PATH lacks them
// after a plain su, in cron jobs and in some containers.
var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// installSystem leaves nothing behind where it fails: with the file in its
// place, the next rebuild for another reason would have the CA trusted.
func installSystem(cert *x509.Certificate) error {
	return withRebuild(nil, func() error {
		err := truststore.Install(cert)
		if err != nil {
			_ = truststore.Uninstall(cert) // the file goes first; that the rebuild fails again is no news
		}
		return err
	})
}

// uninstallSystem makes the links in /etc/ssl/certs anew: without that, Debian's
// and Alpine's update-ca-certificates leaves those to the file that is gone.
func uninstallSystem(cert *x509.Certificate) error {
	var flags []string
	if slices.Equal(truststore.SystemTrustCommand, []string{"update-ca-certificates"}) {
		flags = []string{"--fresh"}
	}
	return withRebuild(flags, func() error { return truststore.Uninstall(cert) })
}

// withRebuild has truststore run the command that rebuilds the store by its
// path, with more flags. Where there is none it changes nothing.
func withRebuild(flags []string, change func() error) error {
	usual := truststore.SystemTrustCommand
	if len(usual) > 0 { // else truststore says that it knows no such system
		path, err := findRebuild(usual[0])
		if err != nil {
			return err
		}
		defer func() { truststore.SystemTrustCommand = usual }()
		truststore.SystemTrustCommand = slices.Concat([]string{path}, usual[1:], flags)
	}
	return change()
}

func findRebuild(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range sbin {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	pkg := "ca-certificates"
	if name == "trust" {
		pkg = "p11-kit"
	}
	return "", fmt.Errorf("find %s: it is neither in PATH nor in %s; install the package %s", name, strings.Join(sbin, ", "), pkg)
}
