package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func serveCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	var source config.Source
	source.LookupEnv = lookupEnv
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the proxy",
		Long: `Serve the proxy until SIGINT or SIGTERM, then let requests under way finish.

With --share no configuration file is needed: the hosts and all their subdomains
are one site, on loopback, with an embedded store.`,
		Example: `  sessionproxy serve --share shop.example.com
  sessionproxy serve --config sessionproxy.yaml`,
		Args: noArgs("a configuration is given with --config FILE, a host with --share HOST"),
		RunE: func(c *cobra.Command, _ []string) error {
			return serve(c.Context(), source, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&source.File, "config", "c", "", "configuration `FILE`")
	f.StringArrayVar(&source.Flags.Share, "share", nil, "share the sessions of `HOST` and its subdomains; may be repeated")
	f.StringArrayVar(&source.Flags.Listen, "listen", nil, "proxy port, as `ADDR[,ask][,client=NAME][,session=ID]`; may be repeated (default 127.0.0.1:8080)")
	f.StringVar(&source.Flags.Admin, "admin", "", "`ADDR` of the admin API (default 127.0.0.1:8081)")
	f.StringVar(&source.Flags.Ops, "ops", "", "`ADDR` of /metrics, /healthz and /readyz (default 127.0.0.1:8082)")
	f.StringVar(&source.Flags.Store, "store", "", "where sessions live: embedded, or the `URL` of a Redis (default embedded)")
	f.StringVar(&source.Flags.State, "state", "", "`DIR` of CA, keys, admin token and embedded store (default ./state)")
	return cmd
}

// serve runs a proxy until ctx ends.
func serve(ctx context.Context, source config.Source, stdout, stderr io.Writer) error {
	seen := stateOf(source.File)
	c, err := config.Load(source)
	if err != nil {
		return err
	}
	if source.File == "" && len(c.Sites) == 0 {
		return usageError{errors.New("serve: name a site with --share HOST, or a configuration with --config FILE"), "sessionproxy serve"}
	}
	defer runtime.KeepAlive(keepHeapFloor())
	logs := newLogBuffer(stderr)
	defer logs.close()
	log := slog.New(slog.NewTextHandler(logs, nil))

	i, err := openInstance(c, log, stdout)
	if err != nil {
		return err
	}
	defer i.close()
	if source.File == "" {
		i.greet(stdout, c.Sites[0].Name)
	}
	log.Info("serving", "version", versionString(), "proxy", i.proxyAddrs(), "admin", i.admin.Addr().String(), "ops", i.ops.Addr().String(), "ca", i.caPath(), "ca_sha256", i.authority.Fingerprint())
	ctx, stop := context.WithCancel(ctx)
	var reloads sync.WaitGroup
	defer reloads.Wait()
	defer stop()
	reloads.Go(func() { i.reloadOnChange(ctx, source, seen) })
	return i.serve(ctx)
}

// greet prints what a newcomer needs next.
func (i *instance) greet(w io.Writer, host string) {
	proxy := proxyURL(i.entry(), "")
	fmt.Fprintf(w, `Sharing the sessions of %s and its subdomains.

  proxy   %s
  CA      %s
  try     curl -x %s --cacert %s https://%s/
  run     sessionproxy run%s -- CMD
  look    %s (log in with the content of %s)

`, host, proxy, i.caPath(), proxy, i.caPath(), host, i.runFlags(), i.dashboard(), absolute(filepath.Join(i.config.State, "admin.token")))
}

// dashboard is the page that operators look at.
func (i *instance) dashboard() string {
	if i.config.AdminTLS() {
		return "https://" + i.admin.Addr().String() + "/"
	}
	return "http://" + i.admin.Addr().String() + "/"
}

// runFlags are what "run" in another shell needs to find this proxy.
func (i *instance) runFlags() string {
	flags := ""
	if a := i.admin.Addr().String(); a != "127.0.0.1:8081" {
		flags += " --admin " + a
	}
	if filepath.Clean(i.config.State) != "state" {
		flags += " --state " + absolute(i.config.State)
	}
	return flags
}

// absolute is path as another terminal can use it.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// bind listens on addr; its error names the setting and the remedy.
func bind(setting, addr string) (net.Listener, error) {
	var conf net.ListenConfig
	ln, err := conf.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w%s", setting, err, bindRemedy(setting, err))
	}
	return ln, nil
}

// drain is how long requests under way may take after a signal.
const drain = 20 * time.Second
