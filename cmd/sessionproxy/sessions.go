package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func sessionsCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List the sessions of a running proxy, show one, or end it",
		Long: `List the sessions of a running proxy, show one, or end it. No cookie's value is
ever shown.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("sessions: say what to do: list, show, login, clear or revoke"), c.CommandPath()}
		},
	}
	a.flags(cmd)
	byFlags := noArgs("a session is given with --session ID, its site with --site NAME")
	cmd.AddCommand(
		listCommand(a, byFlags),
		showCommand(a, byFlags),
		&cobra.Command{
			Use:   "login",
			Short: "Log in to a session by the site's recipe, now, and show each step",
			Long: `Log in to a session by the site's recipe, now, whatever failed before, and show
each step, without any value that is sent or taken.`,
			Args: byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				path, err := a.sessionPath(c, "login")
				if err != nil {
					return err
				}
				a.limit = loginLimit
				b, err := a.do(c, http.MethodPost, path, nil)
				if err != nil {
					return err
				}
				if err := report(a, c.OutOrStdout(), b, showLogin); err != nil {
					return err
				}
				l, err := decode[admin.SessionLoggedIn](b)
				if err == nil && l.Error != "" {
					err = fmt.Errorf("log in to the session %s of %s: %s", l.Session, l.Site, printable(l.Error))
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "clear",
			Short: "Forget a session's cookies; replies under way may fill it anew",
			Args:  byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				return ofSession(a, c, http.MethodDelete, nil, ended("Cleared"))
			},
		},
		&cobra.Command{
			Use:   "revoke",
			Short: "End a session for all its clients, for good",
			Long: `End a session for all its clients: its cookies go, replies under way bring none
back, what clients still hold of it is cut from their requests, and its open
WebSockets and tunnels are closed. A login after that begins it anew.`,
			Args: byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				return ofSession(a, c, http.MethodPost, []string{"revoke"}, ended("Revoked"))
			},
		},
	)
	return cmd
}

// ended says what was ended, and how. An ID that is misspelt shows in it.
func ended(how string) func(io.Writer, admin.Ended) error {
	return func(w io.Writer, e admin.Ended) error {
		held := "it held " + counted(e.Cookies)
		if !e.Found {
			held = "no such session was there"
		}
		_, err := fmt.Fprintf(w, "%s the session %s of %s: %s.\n", how, e.Session, e.Site, held)
		return err
	}
}

// ofSession makes a call without a body for the session that is meant, or a
// part of it, and prints the answer.
func ofSession[T any](a *api, c *cobra.Command, method string, part []string, show func(io.Writer, T) error) error {
	path, err := a.sessionPath(c, part...)
	if err != nil {
		return err
	}
	b, err := a.do(c, method, path, nil)
	if err != nil {
		return err
	}
	return report(a, c.OutOrStdout(), b, show)
}

func listCommand(a *api, args cobra.PositionalArgs) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sessions that hold cookies or are in use, of all sites or of --site",
		Args:  args,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{"site": {a.site}, "session": {a.session}}
			ask := func() ([]byte, error) {
				return a.do(c, http.MethodGet, admin.Path("sessions")+"?"+query.Encode(), nil)
			}
			if follow {
				return watch(a, c, lookEvery, ask, view[admin.Sessions]{showSessions, sessionLines})
			}
			b, err := ask()
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, showSessions)
		},
	}
	watchFlag(cmd, &follow)
	return cmd
}

func showCommand(a *api, args cobra.PositionalArgs) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Show a session and its cookies, without their values",
		Args:  args,
		RunE: func(c *cobra.Command, _ []string) error {
			if !follow {
				return ofSession(a, c, http.MethodGet, nil, showSession)
			}
			path, err := a.sessionPath(c)
			if err != nil {
				return err
			}
			ask := func() ([]byte, error) { return a.do(c, http.MethodGet, path, nil) }
			return watch(a, c, lookEvery, ask, view[admin.SessionDetail]{showSession, cookieLines})
		},
	}
	watchFlag(cmd, &follow)
	return cmd
}

func showSessions(w io.Writer, list admin.Sessions) error {
	rows := [][]string{{"SITE", "SESSION", "STATE", "COOKIES", "AGE", "LAST-USED", "BY", "ENDS-IN", "LOGIN"}}
	for _, s := range list.Sessions {
		age, ends := "-", "-"
		if s.State == admin.Live {
			age, ends = span(time.Since(s.Created)), span(time.Until(s.Expires))
		}
		rows = append(rows, []string{
			s.Site, s.Session, string(s.State), strconv.Itoa(s.Cookies), age, lastUsed(&s), usedBy(&s), ends, loginWords(s.Login),
		})
	}
	return table(w, rows)
}

// loginWords say how a session's login stands.
func loginWords(l admin.LoginState) string {
	words := l.Verdict
	if l.Rule != "" {
		words += " (" + l.Rule + ")"
	}
	if l.Error != "" {
		words += fmt.Sprintf("; the recipe rests for %s after %s: %s", span(time.Until(l.NextTry)), count(l.Failures, "failure"), printable(l.Error))
	}
	return words
}

// loginLimit is longer than a recipe may take.
const loginLimit = 6 * time.Minute

func showLogin(w io.Writer, l admin.SessionLoggedIn) error {
	rows := [][]string{{"STEP", "STATUS", "TAKEN", "REDIRECTS-TO", "TIME"}}
	for _, s := range l.Steps {
		status, took, redirect := "-", "-", "-"
		if s.Status > 0 {
			status = strconv.Itoa(s.Status)
		}
		if len(s.Took) > 0 {
			took = strings.Join(s.Took, " ")
		}
		if s.Redirect != "" {
			redirect = printable(s.Redirect)
		}
		rows = append(rows, []string{s.Method + " " + printable(s.URL), status, took, redirect, fmt.Sprintf("%d ms", s.Milliseconds)})
	}
	if err := table(w, rows); err != nil || l.Error != "" {
		return err
	}
	_, err := fmt.Fprintf(w, "The session %s of %s is logged in.\n", l.Session, l.Site)
	return err
}

func showSession(w io.Writer, s admin.SessionDetail) error {
	if s.Site == "" { // see watch
		_, err := fmt.Fprintln(w, "There is no such session yet.")
		return err
	}
	rows := [][]string{{"site", s.Site}, {"session", s.Session.Session}, {"state", string(s.State)}}
	switch s.State {
	case admin.Live:
		rows = append(rows, []string{"age", span(time.Since(s.Created))}, []string{"ends in", span(time.Until(s.Expires)) + ", unless it is used"})
	case admin.Revoked:
		rows = append(rows, []string{"revoked", ago(s.Revoked)})
	}
	used := lastUsed(&s.Session)
	if by := usedBy(&s.Session); by != "-" {
		used += " by " + by
	}
	if err := table(w, append(rows, []string{"last used", used})); err != nil || len(s.Cookies) == 0 {
		return err
	}
	fmt.Fprintln(w)
	rows = [][]string{{"COOKIE", "VALUE", "DOMAIN", "PATH", "ATTRIBUTES", "ENDS-IN", "SET-BY"}}
	for _, c := range s.Cookies {
		ends := "session"
		if !c.Expires.IsZero() {
			ends = span(time.Until(c.Expires))
		}
		rows = append(rows, []string{cookieName(c.Name), fmt.Sprintf("(%d B)", c.ValueBytes), dotted(c), printable(c.Path), attributes(c), ends, c.Writer})
	}
	return table(w, rows)
}

// lastUsed is when a session was last used. The store's own time may be late by
// a tenth of the session's life; that of the proxy is of its clients alone.
func lastUsed(s *admin.Session) string {
	used := s.Used
	if s.LastUse != nil && s.LastUse.At.After(used) {
		used = s.LastUse.At
	}
	if used.IsZero() {
		return "-"
	}
	return ago(used)
}

// usedBy is the client that used a session last, and its worker, as far as the
// proxy knows: other proxies' uses are in the store's time alone.
func usedBy(s *admin.Session) string {
	switch use := s.LastUse; {
	case use == nil, s.Used.Sub(use.At) > time.Second:
		return "-"
	case use.Client == "":
		return use.Worker
	default:
		return use.Client + "/" + use.Worker
	}
}

// dotted is a cookie's domain as cookies.txt has it.
func dotted(c admin.Cookie) string {
	if c.HostOnly {
		return c.Domain
	}
	return "." + c.Domain
}

// attributes are those of a Set-Cookie line that are words.
func attributes(c admin.Cookie) string {
	var words []string
	for _, a := range []struct {
		set  bool
		word string
	}{
		{c.Secure, "Secure"},
		{c.HTTPOnly, "HttpOnly"},
		{c.SameSite == "none", "SameSite=None"},
		{c.SameSite == "lax", "SameSite=Lax"},
		{c.SameSite == "strict", "SameSite=Strict"},
		{c.Partitioned, "Partitioned"},
		{c.Priority != "", "Priority=" + printable(c.Priority)},
	} {
		if a.set {
			words = append(words, a.word)
		}
	}
	if len(words) == 0 {
		return "-"
	}
	return strings.Join(words, " ")
}

func ago(t time.Time) string { return span(time.Since(t)) + " ago" }
