package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// accessCommand is about tokens that stand for clients' passwords.
func accessCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Issue tokens that stand for clients' passwords for a while, and revoke them",
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("access: say what to do: issue, list or revoke"), c.CommandPath()}
		},
	}
	a.adminFlags(cmd)
	cmd.AddCommand(issueCommand(a), grantsCommand(a), revokeGrantsCommand(a))
	return cmd
}

func issueCommand(a *api) *cobra.Command {
	var body admin.IssueGrant
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Print a token that a client can use as its password",
		Long: `Print a token that the client can use as its password, until --ttl is over or
"access revoke". With --site and --session it opens those alone. It is shown this
once.`,
		Example: `  sessionproxy access issue --client crawler --site shop --ttl 15m
  curl -x "http://crawler:$(sessionproxy access issue --client crawler)@127.0.0.1:8080" https://shop.example.com/`,
		Args: noArgs("a client is named with --client NAME"),
		RunE: func(c *cobra.Command, _ []string) error {
			if body.Client == "" {
				return usageError{errors.New("access issue: name the client with --client"), c.CommandPath()}
			}
			b, err := a.do(c, http.MethodPost, admin.Path("access"), body)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, g admin.IssuedGrant) error {
				_, err := fmt.Fprintln(w, g.Token)
				return err
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&body.Client, "client", "", "`NAME` of the client")
	f.StringArrayVar(&body.Sites, "site", nil, "for the site `NAME` alone; may be repeated (default: all that the client may use)")
	f.StringArrayVar(&body.Sessions, "session", nil, "for the sessions of the `GLOB` alone; may be repeated (default: the same)")
	f.StringVar(&body.TTL, "ttl", "15m", "how long it lives: a `DURATION` of up to 720h")
	return cmd
}

func grantsCommand(a *api) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens that have not ended, without the tokens themselves",
		Args:  noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := a.do(c, http.MethodGet, admin.Path("access"), nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, list admin.Grants) error {
				rows := [][]string{{"ID", "CLIENT", "SITES", "SESSIONS", "BY", "AGE", "ENDS-IN"}}
				for _, g := range list.Grants {
					rows = append(rows, []string{g.ID, g.Client, orAll(g.Sites), orAll(g.Sessions), g.By, span(time.Since(g.Issued)), span(time.Until(g.Expires))})
				}
				return table(w, rows)
			})
		},
	}
}

func revokeGrantsCommand(a *api) *cobra.Command {
	var client string
	cmd := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "End tokens by their IDs, or all of a client",
		Long: `End tokens before their time, for all proxies. Tunnels that were opened with them
close when the requests under way in them are answered, blind ones at once.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (client == "") == (len(args) == 0) {
				return errors.New("access revoke: name tokens by their IDs, as \"access list\" shows them, or --client NAME")
			}
			return nil
		},
		RunE: func(c *cobra.Command, ids []string) error {
			if client != "" {
				b, err := a.do(c, http.MethodGet, admin.Path("access"), nil)
				if err != nil {
					return err
				}
				list, err := decode[admin.Grants](b)
				if err != nil {
					return err
				}
				for _, g := range slices.DeleteFunc(list.Grants, func(g admin.Grant) bool { return g.Client != client }) {
					ids = append(ids, g.ID)
				}
			}
			for _, id := range ids {
				if _, err := a.do(c, http.MethodDelete, admin.Path("access", id), nil); err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "Revoked %s.\n", count(len(ids), "token"))
			return err
		},
	}
	cmd.Flags().StringVar(&client, "client", "", "all tokens of the client `NAME`")
	return cmd
}

// orAll is a list of names, where none stands for all.
func orAll(names []string) string {
	if len(names) == 0 {
		return "all"
	}
	return strings.Join(names, " ")
}
