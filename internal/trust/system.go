package trust

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"os/exec"

	"github.com/smallstep/truststore"
)

// System is the store of the operating system. It needs root, by sudo where
// there is one.
type System struct{}

// Name implements [Store].
func (System) Name() string { return "the system's store" }

// Install implements [Store].
func (System) Install(_ context.Context, cert *x509.Certificate) error {
	if err := needRoot(); err != nil {
		return err
	}
	return explain(installSystem(cert))
}

// Uninstall implements [Store].
func (System) Uninstall(ctx context.Context, cert *x509.Certificate) error {
	if err := needRoot(); err != nil {
		return err
	}
	return errors.Join(explain(uninstallSystem(cert)), uninstallDebianJava(ctx, cert))
}

// debianJava is filled by Debian with the system's roots: each that is put into
// the system's store comes here too, and none is taken out again
// (ca-certificates-java, /etc/ca-certificates/update.d/jks-keystore).
const debianJava = "/etc/ssl/certs/java/cacerts"

func uninstallDebianJava(ctx context.Context, cert *x509.Certificate) error {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		return nil // there is no Java
	}
	if _, err := os.Stat(debianJava); err != nil {
		return nil // this is no Debian
	}
	return Java{keytool, debianJava}.Uninstall(ctx, cert)
}

func needRoot() error {
	if _, err := exec.LookPath("sudo"); err != nil && os.Geteuid() > 0 { // -1 on Windows
		return errors.New("this needs root: run it as root, or install sudo")
	}
	return nil
}

// explain adds what a command printed, which truststore's own text leaves out.
func explain(err error) error {
	if e, ok := errors.AsType[*truststore.CmdError](err); ok {
		return commandError(e.Cmd(), e.Out(), e.Err())
	}
	return err
}
