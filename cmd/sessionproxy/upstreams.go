package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func upstreamsCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	var pool string
	cmd := &cobra.Command{
		Use:   "upstreams",
		Short: "List, add, remove and check the proxies that requests leave by, or end their leases",
		Long: `List, add, remove and check the proxies that requests leave by, or end their
leases. An upstream is named by its address, by its URL, or by its ID where
several have one address. Credentials are never shown.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("upstreams: say what to do: list, add, rm, check or release"), c.CommandPath()}
		},
	}
	a.flags(cmd)
	cmd.PersistentFlags().StringVar(&pool, "pool", "", "`NAME` of the pool (default: the only one; for list and check: all)")
	p := &poolAPI{api: a, name: &pool}
	cmd.AddCommand(p.listCommand(), p.addCommand(), p.rmCommand(), p.checkCommand(), p.releaseCommand())
	return cmd
}

// poolAPI asks for pools.
type poolAPI struct {
	*api
	name *string // of --pool
}

func (p *poolAPI) listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the upstreams and who leases them",
		Args:  noArgs("a pool is given with --pool NAME"),
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := p.list(c)
			if err != nil {
				return err
			}
			return report(p.api, c.OutOrStdout(), b, showUpstreams)
		},
	}
}

func (p *poolAPI) list(c *cobra.Command) ([]byte, error) {
	return p.do(c, http.MethodGet, admin.Path("upstreams")+"?"+url.Values{"pool": {*p.name}}.Encode(), nil)
}

func (p *poolAPI) addCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "add [URL]",
		Short: "Add an upstream to a pool, for all proxies that share its leases",
		Long: `Add an upstream to a pool, for all proxies that share its leases. Without a URL it
is the first line of standard input, so that its password stands in no list of
processes. With a Redis store it stays until it is removed; with the embedded
store, until the proxy stops: add it to the configuration to keep it.`,
		Example: `  sessionproxy upstreams add socks5://10.0.0.2:1080
  sessionproxy upstreams add --pool eu < upstream.txt`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one URL, not %d", words(c), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var at string
			if len(args) == 1 {
				at = args[0]
			} else {
				var err error
				if at, err = firstLine(c.InOrStdin()); err != nil {
					return err
				}
			}
			path, err := p.path(c)
			if err != nil {
				return err
			}
			b, err := p.do(c, http.MethodPost, path, admin.AddUpstream{URL: at})
			if err != nil {
				return err
			}
			return report(p.api, c.OutOrStdout(), b, func(w io.Writer, u admin.Upstream) error {
				_, err := fmt.Fprintf(w, "Added %s (%s) to the pool %s.\n", u.URL, u.ID, u.Pool)
				return err
			})
		},
	}
}

func (p *poolAPI) rmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm UPSTREAM",
		Short: "Remove an upstream from a pool; requests under way finish",
		Long: `Remove an upstream from a pool; requests under way finish. One that the
configuration names stays away until it is added again.`,
		Args: oneArg("name the upstream, such as 10.0.0.1:3128"),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := p.path(c, args[0])
			if err != nil {
				return err
			}
			b, err := p.do(c, http.MethodDelete, path, nil)
			if err != nil {
				return err
			}
			return report(p.api, c.OutOrStdout(), b, func(w io.Writer, u admin.Upstream) error {
				_, err := fmt.Fprintf(w, "Removed %s (%s) from the pool %s.\n", u.URL, u.ID, u.Pool)
				return err
			})
		},
	}
}

func (p *poolAPI) releaseCommand() *cobra.Command {
	var at string
	cmd := &cobra.Command{
		Use:   "release [OWNER]",
		Short: "End the lease of an owner, or all leases of --upstream",
		Long: `End the lease of an owner, or all leases of --upstream: their next requests leave
by another, if one is free. What is under way finishes.`,
		Example: `  sessionproxy upstreams release worker:crawler/10.0.0.7
  sessionproxy upstreams release --upstream 10.0.0.1:3128`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (at != "") {
				return errors.New("name one owner as upstreams list shows it, or an upstream with --upstream")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			body := admin.ReleaseLeases{Upstream: at}
			if len(args) == 1 {
				body.Owner = args[0]
			}
			path, err := p.path(c, "release")
			if err != nil {
				return err
			}
			b, err := p.do(c, http.MethodPost, path, body)
			if err != nil {
				return err
			}
			return report(p.api, c.OutOrStdout(), b, func(w io.Writer, r admin.Released) error {
				for _, l := range r.Leases {
					fmt.Fprintf(w, "Released the lease of %s in the pool %s.\n", printable(l.Owner), r.Pool)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&at, "upstream", "", "all leases of `UPSTREAM`")
	return cmd
}

func (p *poolAPI) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check [UPSTREAM]",
		Short: "Try upstreams that nobody uses",
		Long: `Try upstreams that nobody uses: by the pool's check, or by a connection where it
has none. Those in use are left alone. It fails where one does.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one upstream, or none for all", words(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				path, err := p.path(c, args[0], "check")
				if err != nil {
					return err
				}
				return p.check(c, []string{path})
			}
			b, err := p.list(c)
			if err != nil {
				return err
			}
			list, err := decode[admin.Upstreams](b)
			if err != nil {
				return err
			}
			var paths []string
			for _, u := range list.Upstreams {
				paths = append(paths, admin.Path("upstreams", u.Pool, u.ID, "check"))
			}
			return p.check(c, paths)
		},
	}
}

// checksAtOnce bounds the checks under way.
const checksAtOnce = 8

// check asks for the checks and shows what came of them.
func (p *poolAPI) check(c *cobra.Command, paths []string) error {
	answers, errs := make([][]byte, len(paths)), make([]error, len(paths))
	bar := newProgress(c.ErrOrStderr(), "checking", len(paths))
	turn := make(chan struct{}, checksAtOnce)
	var wg sync.WaitGroup
	for i, path := range paths {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			answers[i], errs[i] = p.do(c, http.MethodPost, path, nil)
			bar.step()
		})
	}
	wg.Wait()
	bar.end()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	rows, failed := [][]string{{"POOL", "UPSTREAM", "ID", "RESULT", "TOOK", "DETAIL"}}, 0
	for _, b := range answers {
		if p.json {
			if _, err := c.OutOrStdout().Write(b); err != nil {
				return err
			}
		}
		r, err := decode[admin.Checked](b)
		if err != nil {
			return err
		}
		detail := r.Error
		if detail == "" && r.Status != 0 {
			detail = strconv.Itoa(r.Status)
		}
		if r.Result == "failed" {
			failed++
		}
		rows = append(rows, []string{r.Pool, r.URL, r.ID, r.Result, (time.Duration(r.Millis) * time.Millisecond).String(), printable(detail)})
	}
	if !p.json {
		if err := table(c.OutOrStdout(), rows); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d upstreams failed", failed, len(paths))
	}
	return nil
}

// path is a path of the pool that is meant.
func (p *poolAPI) path(c *cobra.Command, part ...string) (string, error) {
	name := *p.name
	if name == "" {
		b, err := p.do(c, http.MethodGet, admin.Path("upstreams"), nil)
		if err != nil {
			return "", err
		}
		list, err := decode[admin.Upstreams](b)
		if err != nil {
			return "", err
		}
		switch len(list.Pools) {
		case 0:
			return "", errors.New("the proxy has no pool: declare one in its configuration, under upstreams")
		case 1:
			name = list.Pools[0]
		default:
			return "", usageError{fmt.Errorf("say with --pool which is meant: %s", strings.Join(list.Pools, ", ")), c.CommandPath()}
		}
	}
	return admin.Path(append([]string{"upstreams", name}, part...)...), nil
}

func showUpstreams(w io.Writer, list admin.Upstreams) error {
	rows := [][]string{{"POOL", "UPSTREAM", "ID", "STATE", "LEASES", "OWNERS", "FROM"}}
	for _, u := range list.Upstreams {
		state := u.State
		if u.State == "resting" {
			state = fmt.Sprintf("resting %s (%s)", span(time.Until(u.Rests)), u.Reason)
		}
		var owners []string
		for _, l := range u.Leases {
			owners = append(owners, printable(l.Owner))
		}
		rows = append(rows, []string{u.Pool, u.URL, u.ID, state, fmt.Sprintf("%d/%d", len(u.Leases), u.Capacity), strings.Join(owners, " "), u.Source})
	}
	return table(w, rows)
}
