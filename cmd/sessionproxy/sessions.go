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
			return usageError{errors.New("sessions: say what to do: list, show, clear or revoke"), c.CommandPath()}
		},
	}
	a.flags(cmd)
	byFlags := noArgs("a session is given with --session ID, its site with --site NAME")
	cmd.AddCommand(
		&cobra.Command{
			Use:   "list",
			Short: "List the sessions that hold cookies, of all sites or of --site",
			Args:  byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				query := url.Values{"site": {a.site}, "session": {a.session}}
				b, err := a.do(c, http.MethodGet, admin.Path("sessions")+"?"+query.Encode(), nil)
				if err != nil {
					return err
				}
				return report(a, c.OutOrStdout(), b, showSessions)
			},
		},
		&cobra.Command{
			Use:   "show",
			Short: "Show a session and its cookies, without their values",
			Args:  byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				return ofSession(a, c, http.MethodGet, nil, showSession)
			},
		},
		&cobra.Command{
			Use:   "clear",
			Short: "Forget a session's cookies; replies under way may fill it anew",
			Args:  byFlags,
			RunE: func(c *cobra.Command, _ []string) error {
				return ofSession(a, c, http.MethodDelete, nil, func(w io.Writer, e admin.Ended) error {
					_, err := fmt.Fprintf(w, "Cleared the session %s of %s: it held %s.\n", e.Session, e.Site, counted(e.Cookies))
					return err
				})
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
				return ofSession(a, c, http.MethodPost, []string{"revoke"}, func(w io.Writer, e admin.Ended) error {
					_, err := fmt.Fprintf(w, "Revoked the session %s of %s: it held %s.\n", e.Session, e.Site, counted(e.Cookies))
					return err
				})
			},
		},
	)
	return cmd
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

func showSessions(w io.Writer, list admin.Sessions) error {
	rows := [][]string{{"SITE", "SESSION", "COOKIES", "AGE", "LAST-USED", "ENDS-IN"}}
	for _, s := range list.Sessions {
		rows = append(rows, []string{s.Site, s.Session, strconv.Itoa(s.Cookies), span(time.Since(s.Created)), ago(s.Used), span(time.Until(s.Expires))})
	}
	return table(w, rows)
}

func showSession(w io.Writer, s admin.SessionDetail) error {
	if err := table(w, [][]string{
		{"site", s.Site},
		{"session", s.Session},
		{"age", span(time.Since(s.Created))},
		{"last used", ago(s.Used)},
		{"ends in", span(time.Until(s.Expires)) + ", unless it is used"},
	}); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows := [][]string{{"COOKIE", "VALUE", "DOMAIN", "PATH", "ATTRIBUTES", "ENDS-IN", "SET-BY"}}
	for _, c := range s.Cookies {
		domain, ends := c.Domain, "session"
		if !c.HostOnly {
			domain = "." + domain // as cookies.txt has it
		}
		if !c.Expires.IsZero() {
			ends = span(time.Until(c.Expires))
		}
		rows = append(rows, []string{cookieName(c.Name), fmt.Sprintf("(%d B)", c.ValueBytes), domain, printable(c.Path), attributes(c), ends, c.Writer})
	}
	return table(w, rows)
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
