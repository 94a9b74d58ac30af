package shop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"time"
)

// certificateLife is longer than any demo runs.
const certificateLife = 90 * 24 * time.Hour

// newCertificate makes an authority and one leaf of it, for host. It forgets
// the authority's key: whoever trusts that authority trusts this leaf alone.
func newCertificate(host string) (caPEM []byte, leaf tls.Certificate, err error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, leaf, err
	}
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: host + " throwaway authority"},
		NotBefore:             now.Add(-time.Hour), // for a client whose clock is slow
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, leaf, err
	}
	if ca, err = x509.ParseCertificate(caDER); err != nil { // with its key id, which the leaf repeats
		return nil, leaf, err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, leaf, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		DNSNames:    []string{host},
		NotBefore:   ca.NotBefore,
		NotAfter:    ca.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, key.Public(), caKey)
	if err != nil {
		return nil, leaf, err
	}
	caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return caPEM, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
