package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

func explainCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	var client string
	cmd := &cobra.Command{
		Use:   "explain URL",
		Short: "Say which cookies a request for URL would carry, and why not the others",
		Long: `Say which cookies of a session a request for URL would carry, and why not the
others, were it made by a client itself and not by a page of another site.`,
		Example: `  sessionproxy explain https://shop.example.com/account
  sessionproxy explain --client crawler --session qa1 https://shop.example.com/`,
		Args: oneArg("name the URL, such as https://shop.example.com/"),
		RunE: func(c *cobra.Command, args []string) error {
			u, err := url.Parse(args[0])
			if err != nil || u.Host == "" {
				return usageError{fmt.Errorf("explain %s: write the URL in full, such as https://shop.example.com/", args[0]), c.CommandPath()}
			}
			query := url.Values{"url": {args[0]}, "session": {a.session}, "client": {client}}
			b, err := a.do(c, http.MethodGet, admin.Path("explain")+"?"+query.Encode(), nil)
			if err != nil {
				return err
			}
			if e, err := decode[admin.Explanation](b); err != nil {
				return err
			} else if a.site != "" && a.site != e.Site {
				return fmt.Errorf("explain %s: it does not belong to the site %s", args[0], a.site)
			}
			return report(a, c.OutOrStdout(), b, showExplanation)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&client, "client", "", "as the client `NAME` (default: one without rules of its own)")
	return cmd
}

func showExplanation(w io.Writer, e admin.Explanation) error {
	switch {
	case e.Refused != "":
		_, err := fmt.Fprintln(w, e.Refused)
		return err
	case e.Login != "":
		fmt.Fprintln(w, e.Login)
		e.Login = ""
		return showExplanation(w, e)
	case len(e.Cookies) == 0:
		_, err := fmt.Fprintf(w, "The session %s of %s holds no cookies.\n", e.Session, e.Site)
		return err
	}
	rows := [][]string{{"COOKIE", "SENT", "WHY"}}
	for _, v := range e.Cookies {
		rows = append(rows, []string{cookieName(v.Name), yesNo(v.Sent), printable(v.Reason)})
	}
	return table(w, rows)
}
