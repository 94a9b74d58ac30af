package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func cookiesCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "cookies",
		Short: "Import, export, set or remove the cookies of a session",
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("cookies: say what to do: import, export, set or rm"), c.CommandPath()}
		},
	}
	a.flags(cmd)
	cmd.AddCommand(importCommand(a), exportCommand(a), setCommand(a), rmCommand(a))
	return cmd
}

func setCommand(a *api) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "set NAME[=VALUE][; ATTRIBUTE...]",
		Short: "Set a cookie, as a site's Set-Cookie line would",
		Long: `Set a cookie of a session as the line of a Set-Cookie field would that comes from
--url: it decides for which host and path the cookie is. Without a value it is
the first line of standard input, so that it stands in no list of processes.`,
		Example: `  sessionproxy cookies set 'theme=dark; Path=/'
  sessionproxy cookies set 'sid; Path=/; Secure; HttpOnly' < sid.txt`,
		Args: oneArg("write the cookie in quotes, such as 'theme=dark; Path=/'"),
		RunE: func(c *cobra.Command, args []string) error {
			line := args[0]
			if pair, attributes, _ := strings.Cut(line, ";"); !strings.Contains(pair, "=") {
				value, err := firstLine(c.InOrStdin())
				if err != nil {
					return err
				}
				line = pair + "=" + value + ";" + attributes
			}
			if !utf8.ValidString(line) {
				return usageError{errors.New("the cookie is no UTF-8, and the API takes nothing else"), c.CommandPath()}
			}
			path, err := a.sessionPath(c, "cookies")
			if err != nil {
				return err
			}
			b, err := a.do(c, http.MethodPut, path, admin.SetCookie{SetCookie: line, URL: from})
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, s admin.CookieSet) error {
				_, err := fmt.Fprintf(w, "Set the cookie %s for %s%s in the session %s of %s.\n",
					cookieName(s.Cookie.Name), s.Cookie.Domain, printable(s.Cookie.Path), s.Session, s.Site)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&from, "url", "", "`URL` that sets it (default: the site's first host, by https)")
	return cmd
}

func rmCommand(a *api) *cobra.Command {
	var domain, path string
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove all cookies of a name",
		Args:  oneArg("name the cookie"),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"name": {args[0]}}
			if domain != "" {
				query.Set("domain", strings.TrimPrefix(domain, "."))
			}
			if path != "" {
				query.Set("path", path)
			}
			at, err := a.sessionPath(c, "cookies")
			if err != nil {
				return err
			}
			b, err := a.do(c, http.MethodDelete, at+"?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, r admin.CookiesRemoved) error {
				_, err := fmt.Fprintf(w, "Removed %s named %s from the session %s of %s.\n", counted(len(r.Cookies)), cookieName(args[0]), r.Session, r.Site)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&domain, "domain", "", "only those of `DOMAIN`")
	cmd.Flags().StringVar(&path, "path", "", "only those of `PATH`")
	return cmd
}

// firstLine reads a value that is piped in, without the end of its line.
func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, 64<<10)).ReadString('\n')
	if err != nil && (err != io.EOF || line == "") {
		return "", fmt.Errorf("read the value from standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}
