//go:build !linux

package trust

import (
	"crypto/x509"

	"github.com/smallstep/truststore"
)

func installSystem(cert *x509.Certificate) error { return truststore.Install(cert) }

func uninstallSystem(cert *x509.Certificate) error { return truststore.Uninstall(cert) }
