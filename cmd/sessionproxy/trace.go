package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// shownFirst is how many exchanges a live trace begins with.
const shownFirst = 10

func traceCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	filter := map[string]*string{}
	var last int
	cmd := &cobra.Command{
		Use:   "trace [ID]",
		Short: "Show exchanges as they end: their session, cookies, exit and time, and why",
		Long: fmt.Sprintf(`Show exchanges as they end, until Ctrl-C: a line for each, and below it what is
not as you may expect: cookies that were withheld and why, what was not
captured, why it was refused, where the time went. Tunnels are shown when they
open, too. With --last, show those and end; with an ID, as in X-Exchange-Id and
in the log, show all there is to say of that one.

No value of a cookie is ever shown, and no query. A proxy remembers its last
%d exchanges, and no other's: where several share one Redis, ask each.`, trace.Kept),
		Example: `  sessionproxy trace
  sessionproxy trace --client crawler --outcome refused --last 20
  sessionproxy trace 1f3a9c02-3a
  sessionproxy trace --json | jq 'select(.verdict == "out")'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("name one exchange, such as 1f3a9c02-3a, or none")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				b, err := a.do(c, http.MethodGet, admin.Path("exchanges", args[0]), nil)
				if err != nil {
					return err
				}
				return report(a, c.OutOrStdout(), b, showExchange)
			}
			query := url.Values{}
			for name, value := range filter {
				if *value != "" {
					query.Set(name, *value)
				}
			}
			show := a.exchangePrinter(c)
			if c.Flags().Changed("last") {
				return a.showLast(c, query, last, show)
			}
			return a.followExchanges(c, query, show)
		},
	}
	a.adminFlags(cmd)
	cmd.PersistentFlags().Lookup("json").Usage = "print a line of JSON for each exchange"
	for _, f := range [][2]string{
		{"client", "only those of the client `NAME`"},
		{"worker", "only those of the worker `ID`"},
		{"site", "only those of the site `NAME`"},
		{"session", "only those of the session `ID`"},
		{"outcome", "only those that ended `SO`: " + strings.Join(outcomeWords(), ", ")},
		{"host", "only those to hosts like `GLOB`, such as *.example.com"},
	} {
		filter[f[0]] = cmd.Flags().String(f[0], "", f[1])
	}
	completes(cmd, "outcome", trace.Outcomes)
	cmd.Flags().IntVar(&last, "last", 0, fmt.Sprintf("show the last `N` that fit, at most %d, and end", trace.Kept))
	return cmd
}

// showLast prints the last exchanges that fit, the oldest first.
func (a *api) showLast(c *cobra.Command, query url.Values, n int, show func(trace.Exchange, []byte) error) error {
	query.Set("limit", strconv.Itoa(n))
	b, err := a.do(c, http.MethodGet, admin.Path("exchanges")+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := decode[struct{ Exchanges []json.RawMessage }](b)
	if err != nil {
		return err
	}
	slices.Reverse(answer.Exchanges)
	for _, raw := range answer.Exchanges {
		e, err := decode[trace.Exchange](raw)
		if err == nil {
			err = show(e, raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// followExchanges prints exchanges until the command, or the proxy, ends.
func (a *api) followExchanges(c *cobra.Command, query url.Values, show func(trace.Exchange, []byte) error) error {
	addr, err := a.addr(c)
	if err != nil {
		return err
	}
	token, err := a.credential(c, addr)
	if err != nil {
		return err
	}
	query.Set("last", strconv.Itoa(shownFirst))
	err = admin.Client{Addr: addr, Token: token}.Follow(c.Context(), admin.Path("trace")+"?"+query.Encode(), func(event string, data []byte) error {
		if event == "lost" {
			lost, err := decode[struct{ Lost int }](data)
			if err == nil {
				fmt.Fprintf(c.ErrOrStderr(), "%d exchanges went by faster than they could be shown.\n", lost.Lost)
			}
			return err
		}
		e, err := decode[trace.Exchange](data)
		if err != nil {
			return err
		}
		return show(e, data)
	})
	switch {
	case c.Context().Err() != nil:
		return nil
	case err != nil:
		return a.remedied(addr, err)
	}
	return fmt.Errorf("the proxy at %s has stopped", addr)
}

// exchangePrinter prints exchanges as they come.
func (a *api) exchangePrinter(c *cobra.Command) func(trace.Exchange, []byte) error {
	w := c.OutOrStdout()
	if a.json {
		return func(_ trace.Exchange, raw []byte) error {
			_, err := w.Write(append(bytes.TrimSpace(raw), '\n'))
			return err
		}
	}
	noColor, _ := a.lookupEnv("NO_COLOR") // no-color.org: set, and not empty
	lines := exchangeLines{w: w, color: isTerminal(w) && noColor == ""}
	return func(e trace.Exchange, _ []byte) error { return lines.print(&e) }
}

func outcomeWords() (all []string) {
	for _, o := range trace.Outcomes {
		all = append(all, string(o))
	}
	return all
}
