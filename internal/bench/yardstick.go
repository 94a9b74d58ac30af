//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/elazarl/goproxy"
)

// yardstickRole is the first argument of a process that is a goproxy.
const yardstickRole = "yardstick"

// serveYardstick is that process: goproxy's own interception and no hook.
// Its arguments are the kind, where to listen, the origin's address, and the
// files of the origin's CA, of the proxies' CA and of that one's key.
func serveYardstick(args []string) error {
	if len(args) != 6 {
		return fmt.Errorf("%s: %d arguments, want 6", yardstickRole, len(args))
	}
	kind, listen, origin, originCA, caCert, caKey := args[0], args[1], args[2], args[3], args[4], args[5]
	roots, err := readRoots(originCA)
	if err != nil {
		return err
	}
	proxy := goproxy.NewProxyHttpServer()
	proxy.ConnectDial = nil // else HTTPS_PROXY of whoever runs this decides
	proxy.Tr.Proxy = nil
	proxy.Tr.TLSClientConfig = &tls.Config{RootCAs: roots} // it verifies nothing by default; sessionproxy does
	proxy.Tr.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, origin)
	}
	mitm := goproxy.MitmConnect
	if kind != stock {
		ca, err := tls.LoadX509KeyPair(caCert, caKey)
		if err != nil {
			return fmt.Errorf("read the proxies' CA: %w", err)
		}
		mitm = &goproxy.ConnectAction{Action: goproxy.ConnectMitm, TLSConfig: goproxy.TLSConfigFromCA(&ca)}
		tune(proxy)
	}
	proxy.AllowHTTP2 = kind == tunedH2
	proxy.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(
		func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return mitm, host }))
	return http.ListenAndServe(listen, proxy)
}

// tune sets what stock goproxy lacks: leaves are signed once a host, enough
// connections to the origin are kept, their TLS sessions are resumed, and bodies
// pass as they are.
func tune(proxy *goproxy.ProxyHttpServer) {
	proxy.CertStore = &leafCache{leaves: make(map[string]*tls.Certificate)}
	proxy.KeepAcceptEncoding = true
	proxy.Tr.DisableCompression = true
	proxy.Tr.MaxIdleConns = 256
	proxy.Tr.MaxIdleConnsPerHost = 256
	proxy.Tr.IdleConnTimeout = 90 * time.Second
	proxy.Tr.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(256)
}

// leafCache keeps every leaf. It needs no bound: there is one host.
type leafCache struct {
	mu     sync.Mutex // guards leaves
	leaves map[string]*tls.Certificate
}

// Fetch implements goproxy.CertStorage.
func (c *leafCache) Fetch(host string, sign func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if leaf, ok := c.leaves[host]; ok {
		return leaf, nil
	}
	leaf, err := sign()
	if err != nil {
		return nil, err
	}
	c.leaves[host] = leaf
	return leaf, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read %s: no certificate in it", file)
	}
	return roots, nil
}
