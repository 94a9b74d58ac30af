package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/shop"
)

func demoCommand() *cobra.Command {
	var flags config.Flags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Try it: a local shop with a login and a captcha, the proxy, and the lines to type",
		Long: `Run a small HTTPS shop, https://shop.test/, that only the proxy can reach, the
proxy that shares its sessions, and print lines to try in another terminal.
Captchas are solved by a stand-in that costs nothing. Nothing is kept: its CA and its sessions go when it stops.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return demo(c.Context(), flags, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&flags.Listen, "listen", nil, "proxy port, as `ADDR[,ask][,client=NAME][,session=ID]`; may be repeated (default 127.0.0.1:8080)")
	f.StringVar(&flags.Admin, "admin", "", "`ADDR` of the admin API (default 127.0.0.1:8081)")
	f.StringVar(&flags.Ops, "ops", "", "`ADDR` of /metrics, /healthz and /readyz (default 127.0.0.1:8082)")
	return cmd
}

// The demo's site and its one account.
const (
	demoHost     = "shop.test"
	demoUser     = "alice"
	demoPassword = "wonderland"
)

func demo(ctx context.Context, flags config.Flags, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "sessionproxy-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	solver, err := startSolver(ctx)
	if err != nil {
		return fmt.Errorf("start the captcha service's stand-in: %w", err)
	}
	defer solver.close()
	site, err := shop.Start(context.WithoutCancel(ctx), shop.Options{Host: demoHost, User: demoUser, Password: demoPassword, Captcha: solver.widget()})
	if err != nil {
		return fmt.Errorf("start the shop: %w", err)
	}
	defer func() { _ = site.Close() }() // it only tells why it had closed before
	file := filepath.Join(dir, "shop-ca.pem")
	if err := os.WriteFile(file, site.CAPEM(), 0o600); err != nil {
		return fmt.Errorf("write the shop's CA: %w", err)
	}

	flags.State, flags.Share = dir, []string{demoHost}
	c, err := config.Load(config.Source{LookupEnv: noEnv, Flags: flags})
	if err != nil {
		return err
	}
	c.Sites[0].Origin.CA = file
	c.Sites[0].Origin.Resolve = map[string]string{demoHost + ":443": site.Addr()}
	c.Sites[0].Origin.HTTPSOnly = true
	c.Sites[0].Captcha = []config.Captcha{{
		Type: config.CaptchaAuto, Method: http.MethodPost, When: config.WhenEmpty, Solver: config.SolverCaptchaAI,
		Prefetch: config.PrefetchPage, Budget: config.CaptchaBudget{PerHour: 20}, OnFailure: config.Reject,
	}}
	c.CaptchaAI = solver.account()
	c.Sites[0].Login = &config.Login{
		Request:   config.LoginRequest{Method: http.MethodPost, Path: "/login"},
		LoggedOut: config.Signs{Status: []int{http.StatusUnauthorized}, Redirect: "*/login*"},
		LoggedIn:  config.Signs{Cookie: "sid"},
		Wait:      30 * time.Second, OnTimeout: config.Proceed,
	}

	logs := newLogBuffer(stderr)
	defer logs.close()
	i, err := openInstance(c, slog.New(slog.NewTextHandler(logs, nil)), logs)
	if err != nil {
		return err
	}
	defer i.close()
	port := i.entry()
	fmt.Fprintf(stdout, demoLines, proxyURL(port, ""), i.caPath(), demoUser, demoPassword, proxyURL(port, "b-session-qa1:"), i.runFlags(), i.ops.Addr())
	return i.serve(ctx)
}

func noEnv(string) (string, bool) { return "", false }

// demoLines are run by a test as they stand.
const demoLines = `The shop is open at https://shop.test/, behind the proxy only.
Try this in another terminal:

  export https_proxy=%[1]s CURL_CA_BUNDLE=%[2]s

  # Nobody is logged in: the shop sends you to its login page.
  curl -so /dev/null -w '%%{http_code} %%{redirect_url}\n' https://shop.test/account

  # Client A logs in as %[3]s, with the form's token, as a browser would.
  token=$(curl -s -c a.jar https://shop.test/login | sed -n 's/.*name="csrf_token" value="\([^"]*\)".*/\1/p')
  curl -so /dev/null -w '%%{http_code} %%{redirect_url}\n' -b a.jar -c a.jar -d "user=%[3]s" -d "password=%[4]s" -d "csrf_token=$token" https://shop.test/login

  # Client B knows nothing of A, and has no cookies. It is logged in.
  curl -s https://shop.test/api/me

  # Nine more clients log in, all at once, each with the same password. None of them goes to the shop: they get A's answer.
  for n in 1 2 3 4 5 6 7 8 9; do curl -so /dev/null -b a.jar -d "user=%[3]s" -d "password=%[4]s" -d "csrf_token=$token" https://shop.test/login & done; wait
  curl -s http://%[7]s/metrics | grep ^sessionproxy_logins_total

  # Another session is not logged in. The proxy's user name selects it.
  https_proxy=%[5]s curl -s https://shop.test/api/me

  # The contact form has a captcha, and its field is sent empty. The proxy fills it, in about 15 s: as long as a real solve takes.
  curl -s -b a.jar https://shop.test/contact | grep -o 'data-sitekey="[^"]*"'
  curl -so /dev/null -w '%%{http_code} %%{redirect_url}\n' -b a.jar -e https://shop.test/contact -d "csrf_token=$token" -d message=Hello -d g-recaptcha-response= https://shop.test/contact

"sessionproxy run%[6]s -- CMD" runs any program behind the proxy, and
"sessionproxy sessions list%[6]s" shows who is logged in. Log lines follow. Ctrl-C ends the demo.

`
