package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
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
	f.StringVar(&source.Flags.Store, "store", "", "where sessions live (default embedded)")
	f.StringVar(&source.Flags.State, "state", "", "`DIR` of CA, keys, admin token and embedded store (default ./state)")
	return cmd
}

// serve runs a proxy until ctx ends.
func serve(ctx context.Context, source config.Source, stdout, stderr io.Writer) error {
	c, err := config.Load(source)
	if err != nil {
		return err
	}
	logs := newLogBuffer(stderr)
	defer logs.close()
	log := slog.New(slog.NewTextHandler(logs, nil))

	i, err := openInstance(c, log)
	if err != nil {
		return err
	}
	defer i.close()
	if len(source.Flags.Share) > 0 {
		i.greet(stdout, source.Flags.Share[0])
	}
	log.Info("serving", "version", versionString(), "proxy", i.proxyAddrs(), "admin", i.admin.Addr().String(), "ops", i.ops.Addr().String(), "ca", i.authority.Fingerprint())
	stopReload := reloadOnHangup(i, source, log)
	defer stopReload()
	return i.serve(ctx)
}

// greet prints what a newcomer needs next.
func (i *instance) greet(w io.Writer, host string) {
	proxy := i.proxyURL()
	fmt.Fprintf(w, `Sharing the sessions of %s and its subdomains.

  proxy   %s
  CA      %s
  try     curl -x %s --cacert %s https://%s/
  run     sessionproxy run%s -- CMD

`, host, proxy, i.caPath(), proxy, i.caPath(), host, i.runFlags())
}

// runFlags are what "run" in another shell needs to find this proxy.
func (i *instance) runFlags() string {
	flags := ""
	if a := i.admin.Addr().String(); a != "127.0.0.1:8081" {
		flags += " --admin " + a
	}
	if filepath.Clean(i.config.State) != "state" {
		flags += " --state " + i.config.State
	}
	return flags
}

// reloadOnHangup reads the configuration anew on SIGHUP. A wrong one changes
// nothing.
func reloadOnHangup(i *instance, source config.Source, log *slog.Logger) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range hangup {
			next, err := config.Load(source)
			if err == nil {
				err = i.proxy.Reload(next)
			}
			i.reloaded(err == nil)
			if err != nil {
				log.Error("reload: the old configuration stays in force", "err", err)
				continue
			}
			if keys := i.config.NeedsRestart(next); len(keys) > 0 {
				log.Warn("reload: some changes wait for a restart", "keys", strings.Join(keys, ", "))
			}
			i.sites.Store(&next.Sites)
			log.Info("reload: the new configuration is in force")
		}
	}()
	return func() {
		signal.Stop(hangup)
		close(hangup)
		<-done
	}
}

// bind listens on addr; its error names the setting and the remedy.
func bind(setting, addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w%s", setting, err, bindRemedy(setting, err))
	}
	return ln, nil
}

// drain is how long requests under way may take after a signal.
const drain = 20 * time.Second
