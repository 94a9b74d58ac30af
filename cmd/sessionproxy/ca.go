package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/clientenv"
	"github.com/sessionproxy/sessionproxy/internal/trust"
)

func caCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Show the CA that clients must trust, and have this machine trust it",
		Long: `Show the certificate that the proxy shows clients the declared sites with, and
put it into the trust stores of this machine or take it out again.

It is ca.pem in the state directory. Where the configuration names another CA,
this one is not in use.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{errors.New("say what to do with the CA: path, print, bundle, install or uninstall"), c.CommandPath()}
		},
	}
	cmd.PersistentFlags().StringVar(&state, "state", "", "`DIR` of the CA "+stateDefault)
	read := func() (ca authority, err error) {
		dir, err := clientenv.StateDir(state, lookupEnv)
		if err != nil {
			return ca, err
		}
		ca.state, ca.path = dir, filepath.Join(dir, "ca.pem")
		ca.pem, err = clientenv.ReadCA(dir)
		return ca, err
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "path",
			Short: "Print the path of the certificate",
			RunE: func(c *cobra.Command, _ []string) error {
				ca, err := read()
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), ca.path)
				return err
			},
		},
		&cobra.Command{
			Use:   "print",
			Short: "Print the certificate",
			RunE: func(c *cobra.Command, _ []string) error {
				ca, err := read()
				if err != nil {
					return err
				}
				_, err = c.OutOrStdout().Write(ca.pem)
				return err
			},
		},
		&cobra.Command{
			Use:   "bundle [FILE]",
			Short: "Write the system's roots and the CA, for programs that take roots in place of their own",
			Long: `Write the roots in SSL_CERT_FILE, where it is set, else the system's, and the CA
to FILE, or to standard output. Programs that read such a bundle trust it in place
of their own roots.`,
			Args: cobra.MaximumNArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				ca, err := read()
				if err != nil {
					return err
				}
				roots, _, err := clientenv.Bundle(ca.state, ca.pem, lookupEnv)
				if err != nil {
					return err
				}
				if len(args) == 0 {
					_, err = c.OutOrStdout().Write(roots.PEM())
				} else {
					err = os.WriteFile(args[0], roots.PEM(), 0o644) //nolint:gosec // certificates are public
				}
				if err != nil {
					return fmt.Errorf("write the bundle: %w", err)
				}
				return nil
			},
		},
		storesCommand("install", "Have this machine's programs trust the CA", "now trusted by", read, trust.Store.Install),
		storesCommand("uninstall", "Take the CA out of this machine's trust stores", "no longer trusted by", read, trust.Store.Uninstall),
	)
	return cmd
}

// authority is the CA in a state directory.
type authority struct {
	state, path string
	pem         []byte
}

func (a authority) certificate() (*x509.Certificate, error) {
	block, _ := pem.Decode(a.pem)
	cert, err := x509.ParseCertificate(block.Bytes) // ReadCA saw a block
	if err != nil {
		return nil, fmt.Errorf("read the CA: %s: %w", a.path, err)
	}
	return cert, nil
}

// change is what is done to a store.
type change func(trust.Store, context.Context, *x509.Certificate) error

// storesCommand is install or uninstall.
func storesCommand(name, short, done string, read func() (authority, error), do change) *cobra.Command {
	var which stores
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: short + `.

The stores are the system's, which needs root, the NSS databases of Chromium and
Firefox below the home directory, and that of the Java in JAVA_HOME. Without a
flag it is all that are found, and those that are not are named. Where one fails,
the others are seen to all the same, and the exit code is 1. Uninstall before you
remove the state directory: the certificate says what is to be taken out.`,
		RunE: func(c *cobra.Command, _ []string) error {
			ca, err := read()
			if err != nil {
				return err
			}
			cert, err := ca.certificate()
			if err != nil {
				return err
			}
			// Where one fails, the others are as good without it.
			found, absent, err := which.find(c.Context(), name == "install")
			errs := []error{err}
			for _, s := range found {
				if err := do(s, c.Context(), cert); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", s.Name(), err))
					continue
				}
				fmt.Fprintf(c.OutOrStdout(), "%s %s\n", done, s.Name())
			}
			for _, what := range absent {
				fmt.Fprintf(c.OutOrStdout(), "not found: %s\n", what)
			}
			return errors.Join(errs...)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&which.system, "system", false, "the system's store")
	f.BoolVar(&which.nss, "nss", false, "the databases of Chromium and Firefox; install makes one where there is none")
	f.BoolVar(&which.java, "java", false, "the store of the Java in JAVA_HOME")
	return cmd
}

// stores are those that were asked for; none means all that are found.
type stores struct{ system, nss, java bool }

// find returns the stores that there are, words for those that are not and were
// not asked for, and what keeps it from others.
func (s stores) find(ctx context.Context, create bool) (found []trust.Store, absent []string, err error) {
	all := s == stores{}
	if s.system || all {
		found = append(found, trust.System{})
	}
	if s.nss || all {
		dbs, nssErr := findNSS(ctx, s.nss && create)
		for _, db := range dbs {
			found = append(found, db)
		}
		err = nssErr
		if len(dbs) == 0 && err == nil {
			absent = append(absent, "a database of Chromium or Firefox; install --nss makes one")
		}
	}
	if s.java || all {
		java, javaErr := trust.OpenJava(os.Getenv("JAVA_HOME"))
		switch {
		case javaErr == nil:
			found = append(found, java)
		case s.java:
			err = errors.Join(err, javaErr)
		default:
			absent = append(absent, "the store of a Java; JAVA_HOME names it")
		}
	}
	return found, absent, err
}

func findNSS(ctx context.Context, create bool) ([]trust.NSS, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find NSS databases: %w", err)
	}
	return trust.FindNSS(ctx, home, create)
}
