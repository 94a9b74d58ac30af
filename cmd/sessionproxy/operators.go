package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session"
)

func operatorsCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	a := &api{lookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "operators",
		Short: "Declare operators, log in as one, and log devices out",
		Long: `Operators use the admin API by name and password, beside whoever has the admin
token. They are declared in the configuration, under auth.operators.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("operators: say what to do: add, login, logout, devices or revoke"), c.CommandPath()}
		},
	}
	a.adminFlags(cmd)
	cmd.AddCommand(addOperatorCommand(), loginCommand(a), logoutCommand(a), devicesCommand(a), revokeDevicesCommand(a))
	return cmd
}

// minPassword is the shortest password that is hashed: NIST SP 800-63B section
// 5.1.1.2.
const minPassword = 8

func addOperatorCommand() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Ask for a password, and print the operator's entry for the configuration",
		Long: `Ask for a password, on a terminal unseen and twice, else as the first line of
standard input, and print the operator's entry for auth.operators with its
argon2id hash. It changes nothing by itself. The hash does for a client as well.`,
		Example: `  sessionproxy operators add ana --role operator`,
		Args:    oneArg("name the operator"),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case !session.ValidID(name) || name == config.TokenOperator:
				return usageError{fmt.Errorf("operators add: %q is no operator's name: 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, and not %s", name, config.TokenOperator), c.CommandPath()}
			case role != string(config.RoleViewer) && role != string(config.RoleOperator):
				return usageError{fmt.Errorf("operators add: --role %s: write viewer or operator", role), c.CommandPath()}
			}
			pass, err := newPassword(c)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "- {name: %s, password: %s, role: %s}\n", name, strconv.Quote(password.New(pass)), role)
			return err
		},
	}
	cmd.Flags().StringVar(&role, "role", string(config.RoleViewer), "`ROLE`: viewer or operator")
	completes(cmd, "role", []config.Role{config.RoleViewer, config.RoleOperator})
	return cmd
}

// newPassword asks twice, where there is somebody to ask.
func newPassword(c *cobra.Command) (string, error) {
	pass, asked, err := readPassword(c, "Password: ")
	if err != nil {
		return "", err
	}
	if len(pass) < minPassword {
		return "", fmt.Errorf("the password is shorter than %d characters", minPassword)
	}
	if asked {
		again, _, err := readPassword(c, "Again: ")
		if err != nil {
			return "", err
		}
		if again != pass {
			return "", errors.New("the two passwords differ")
		}
	}
	return pass, nil
}

// readPassword asks on a terminal, unseen, or reads a line.
func readPassword(c *cobra.Command, prompt string) (pass string, asked bool, err error) {
	if f, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(c.ErrOrStderr(), "%s", prompt)
		b, err := term.ReadPassword(int(f.Fd()))
		fmt.Fprintln(c.ErrOrStderr())
		if err != nil {
			return "", true, fmt.Errorf("read the password: %w", err)
		}
		return string(b), true, nil
	}
	pass, err = firstLine(c.InOrStdin())
	return pass, false, err
}

func loginCommand(a *api) *cobra.Command {
	return &cobra.Command{
		Use:   "login NAME",
		Short: "Log in at a running proxy, so that other commands need no token",
		Long: `Log in at the proxy of --admin with the operator's password, which is asked for,
or is the first line of standard input. Commands that are given neither --token
nor --state then use this login for that address, until "operators logout" or 14
days without use. It is kept in logins.json in the user's configuration
directory, which only the user can read.`,
		Example: `  sessionproxy operators login ana --admin https://proxy.example.com:8081`,
		Args:    oneArg("name the operator"),
		RunE: func(c *cobra.Command, args []string) error {
			addr, err := a.addr(c)
			if err != nil {
				return err
			}
			l, err := a.readLogins()
			if err != nil {
				return err
			}
			pass, _, err := readPassword(c, "Password: ")
			if err != nil {
				return err
			}
			device, _ := os.Hostname() // without one, the API calls it something
			b, err := admin.Client{Addr: addr}.Do(c.Context(), http.MethodPost, admin.Path("login"), admin.Login{Name: args[0], Password: pass, Device: device})
			if p, answered := errors.AsType[*admin.Problem](err); answered && p.Code == "login" {
				return err // no other token is meant
			}
			if err != nil {
				return a.remedied(addr, err)
			}
			in, err := decode[admin.LoggedIn](b)
			if err != nil {
				return err
			}
			if err := l.keep(addr, in); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "Logged in at %s as %s, %s.\n", addr, in.Name, in.Role)
			return err
		},
	}
}

func logoutCommand(a *api) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "End what \"operators login\" began",
		Args:  noArgs("the proxy is the one of --admin"),
		RunE: func(c *cobra.Command, _ []string) error {
			addr, err := a.addr(c)
			if err != nil {
				return err
			}
			l, err := a.readLogins()
			if err != nil {
				return err
			}
			if _, ok := l.all[addr]; !ok {
				return fmt.Errorf("nobody is logged in at %s", addr)
			}
			_, err = a.do(c, http.MethodPost, admin.Path("logout"), nil)
			if p, answered := errors.AsType[*admin.Problem](err); err != nil && (!answered || p.Status != http.StatusUnauthorized) {
				return err
			}
			return l.drop(addr)
		},
	}
}

func devicesCommand(a *api) *cobra.Command {
	return &cobra.Command{
		Use:   "devices",
		Short: "List what operators are logged in with",
		Args:  noArgs(""),
		RunE: func(c *cobra.Command, _ []string) error {
			b, err := a.do(c, http.MethodGet, admin.Path("devices"), nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, list admin.Devices) error {
				rows := [][]string{{"ID", "OPERATOR", "DEVICE", "FROM", "AGE", "LAST-USED", "ENDS-IN"}}
				for _, d := range list.Devices {
					name := printable(d.Name)
					if d.Browser {
						name += " (browser)"
					}
					rows = append(rows, []string{d.ID, d.Operator, name, d.From, span(time.Since(d.Created)), ago(d.Used), span(time.Until(d.Expires))})
				}
				return table(w, rows)
			})
		},
	}
}

func revokeDevicesCommand(a *api) *cobra.Command {
	var operator string
	cmd := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "Log devices out by their IDs, or all of an operator's",
		Example: `  sessionproxy operators revoke 6dd0d7b900ace219bba3b1b45c45629c
  sessionproxy operators revoke --operator ana`,
		Args: func(_ *cobra.Command, args []string) error {
			if (operator == "") == (len(args) == 0) {
				return errors.New("operators revoke: name devices by their IDs, as \"operators devices\" lists them, or --operator NAME")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if operator == "" {
				for _, id := range args {
					if _, err := a.do(c, http.MethodDelete, admin.Path("devices", id), nil); err != nil {
						return fmt.Errorf("%s: %w", id, err)
					}
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "Logged %s out.\n", count(len(args), "device"))
				return err
			}
			b, err := a.do(c, http.MethodDelete, admin.Path("operators", operator, "devices"), nil)
			if err != nil {
				return err
			}
			return report(a, c.OutOrStdout(), b, func(w io.Writer, done admin.DevicesRevoked) error {
				_, err := fmt.Fprintf(w, "Logged %s of %s out.\n", count(done.Devices, "device"), done.Operator)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&operator, "operator", "", "all devices of the operator `NAME`")
	return cmd
}
