package main

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/shop"
)

// demoSiteKey is known to the demo's verifier alone.
const demoSiteKey = "6LdemoDemoDemoDemoDemoDemoDemoDemoDemoDe"

// demoSolver stands in for the captcha service, on a loopback port, and for
// the widget's provider, which tells the shop whether a token is good.
type demoSolver struct {
	key, secret string
	verifier    *captchatest.Verifier
	addr        string
	server      *http.Server
	serving     sync.WaitGroup
}

func startSolver(ctx context.Context) (*demoSolver, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err // listen tcp 127.0.0.1:0: …
	}
	s := &demoSolver{key: (rand.Text() + rand.Text())[:32], secret: rand.Text(), addr: ln.Addr().String()}
	s.verifier = captchatest.NewVerifier(captchatest.Widget{SiteKey: demoSiteKey, Secret: s.secret, Hostnames: []string{demoHost}})
	s.server = &http.Server{
		Handler: captchatest.New(captchatest.Options{
			Key: s.key, Threads: 2, Verifier: s.verifier,
			// Ready before it is first asked for: the client leaves a task alone
			// for as long as the real service wants.
			Outcome: func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: time.Second} },
		}),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // the proxy logs what goes wrong with a solve
	}
	s.serving.Go(func() { _ = s.server.Serve(ln) }) // until close
	return s, nil
}

func (s *demoSolver) close() {
	_ = s.server.Close()
	s.serving.Wait()
}

// account is what the proxy is told of the service.
func (s *demoSolver) account() config.CaptchaAI {
	return config.CaptchaAI{Key: s.key, URL: "http://" + s.addr}
}

// widget is what the shop shows.
func (s *demoSolver) widget() *shop.Captcha {
	return &shop.Captcha{SiteKey: demoSiteKey, Solved: func(token string) bool { return s.verifier.Check(s.secret, token).Success }}
}
