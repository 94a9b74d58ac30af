package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func captchaCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	var of sitekeyFlags
	cmd := &cobra.Command{
		Use:   "captcha",
		Short: "List, push, warm or flush the solved captcha tokens of a running proxy",
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("captcha: say what to do: list, push, warm or flush"), c.CommandPath()}
		},
	}
	a.siteFlags(cmd)
	f := cmd.PersistentFlags()
	f.StringVar(&of.sitekey, "sitekey", "", "`SITEKEY` of the widget (default: the only one that the site has)")
	f.StringVar(&of.action, "action", "", "`ACTION` of the widget, where it has one")
	cmd.AddCommand(tokensListCommand(a), tokensPushCommand(a, &of), tokensWarmCommand(a, &of), tokensFlushCommand(a, &of))
	return cmd
}

// sitekeyFlags say which widget's tokens are meant.
type sitekeyFlags struct{ sitekey, action string }

func tokensListCommand(a *api) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show how many tokens are ready, and how many solves this hour had; never a token",
		Args:  noArgs("a site is given with --site NAME"),
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := a.ofTokens(c, http.MethodGet, nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, showTokens)
		},
	}
}

func showTokens(w io.Writer, t admin.Tokens) error {
	rows := [][]string{{"SITEKEY", "ACTION", "TYPE", "READY", "FIRST-ENDS-IN", "WAITING", "SOLVING", "NEEDED"}}
	for _, k := range t.Sitekeys {
		ends, needed := "-", "no"
		if k.Ready > 0 {
			ends = span(time.Until(k.Ends))
		}
		if k.Needed {
			needed = "yes"
		}
		rows = append(rows, []string{k.Sitekey, dash(k.Action), dash(k.Type), strconv.Itoa(k.Ready), ends, strconv.Itoa(k.Waiting), strconv.Itoa(k.Solving), needed})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s had %s in this hour.\n", t.Site, count(t.Spent, "solve"))
	return err
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func tokensPushCommand(a *api, of *sitekeyFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "push",
		Short: "Put in a token that was solved elsewhere: the first line of standard input",
		Long: `Put in a token that was solved elsewhere. It is the first line of standard input,
so that it stands in no list of processes. It is used within 80 s, or not at all.`,
		Example: `  sessionproxy captcha push --action login < token.txt`,
		Args:    noArgs("the token is the first line of standard input"),
		RunE: func(c *cobra.Command, _ []string) error {
			token, err := firstLine(c.InOrStdin())
			if err != nil {
				return err
			}
			b, err := a.ofTokens(c, http.MethodPost, admin.PushToken{Sitekey: of.sitekey, Action: of.action, Token: token}, "tokens")
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, t admin.TokensChanged) error {
				_, err := fmt.Fprintf(w, "Pushed a token for %s of %s.\n", widget(t), t.Site)
				return err
			})
		},
	}
}

func tokensFlushCommand(a *api, of *sitekeyFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "flush",
		Short: "Forget the tokens that are ready",
		Args:  noArgs("a widget is given with --sitekey SITEKEY"),
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := a.tokensPath(c, "tokens")
			if err != nil {
				return err
			}
			query := url.Values{"sitekey": {of.sitekey}, "action": {of.action}}
			b, err := a.do(c, http.MethodDelete, path+"?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, t admin.TokensChanged) error {
				_, err := fmt.Fprintf(w, "Forgot %s for %s of %s.\n", count(t.Tokens, "token"), widget(t), t.Site)
				return err
			})
		},
	}
}

func tokensWarmCommand(a *api, of *sitekeyFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "warm [N]",
		Short: "Have N tokens solved (default 1), and wait until they are",
		Long: `Have N tokens solved for a widget that the site declares, or that its pages were
seen to show, within the site's budget and the plan's threads, and wait until they are. Each is paid for.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one number, not %d", words(c), len(args))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			n := 1
			if len(args) > 0 {
				var err error
				if n, err = strconv.Atoi(args[0]); err != nil || n < 1 {
					return usageError{fmt.Errorf("%s: %q is no number of tokens", words(c), args[0]), c.CommandPath()}
				}
			}
			b, err := a.ofTokens(c, http.MethodPost, admin.WarmTokens{Sitekey: of.sitekey, Action: of.action, Tokens: n}, "warm")
			if err != nil {
				return err
			}
			begun, err := decode[admin.TokensChanged](b)
			if err != nil {
				return err
			}
			return a.awaitWarm(c, begun)
		},
	}
}

// awaitWarm waits until what was begun is solved, with a bar on a terminal.
func (a *api) awaitWarm(c *cobra.Command, begun admin.TokensChanged) error {
	bar := newProgress(c.ErrOrStderr(), "solving", begun.Tokens)
	defer bar.end()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		b, err := a.ofTokens(c, http.MethodGet, nil)
		if err != nil {
			return err
		}
		list, err := decode[admin.Tokens](b)
		if err != nil {
			return err
		}
		var now admin.TokenList
		for _, k := range list.Sitekeys {
			if k.Sitekey == begun.Sitekey && k.Action == begun.Action {
				now = k
			}
		}
		bar.set(begun.Tokens - min(now.Solving, begun.Tokens))
		if now.Solving == 0 {
			bar.end()
			if now.Ready == 0 {
				return fmt.Errorf("no token is ready for %s of %s: the proxy's log says why", widget(begun), begun.Site)
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, _ admin.Tokens) error {
				_, err := fmt.Fprintf(w, "%s ready for %s of %s.\n", count(now.Ready, "token"), widget(begun), begun.Site)
				return err
			})
		}
		select {
		case <-tick.C:
		case <-c.Context().Done():
			return context.Cause(c.Context())
		}
	}
}

func widget(t admin.TokensChanged) string {
	if t.Action == "" {
		return t.Sitekey
	}
	return t.Sitekey + " (" + t.Action + ")"
}

// ofTokens makes a call about the tokens of the site that is meant.
func (a *api) ofTokens(c *cobra.Command, method string, body any, part ...string) ([]byte, error) {
	path, err := a.tokensPath(c, part...)
	if err != nil {
		return nil, err
	}
	return a.do(c, method, path, body)
}

func (a *api) tokensPath(c *cobra.Command, part ...string) (string, error) {
	site, err := a.siteName(c)
	if err != nil {
		return "", err
	}
	return admin.Path(append([]string{"captcha", site}, part...)...), nil
}
