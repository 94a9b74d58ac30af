package trust

import (
	"crypto/x509"

	"github.com/smallstep/truststore"
)

// uninstallSystem makes the links in /etc/ssl/certs anew: without that, Debian's
// and Alpine's update-ca-certificates leaves those to the file that is gone.
func uninstallSystem(cert *x509.Certificate) error {
	usual := truststore.SystemTrustCommand
	defer func() { truststore.SystemTrustCommand = usual }()
	if len(usual) == 1 && usual[0] == "update-ca-certificates" {
		truststore.SystemTrustCommand = []string{usual[0], "--fresh"}
	}
	return truststore.Uninstall(cert)
}
