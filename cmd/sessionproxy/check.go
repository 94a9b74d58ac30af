package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func checkCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration and print all its faults",
		Long: `Read FILE as "serve --config FILE" would, with the same environment, and print
every fault with its place and its remedy. The exit code is 2 where there is any.`,
		Example: `  sessionproxy check sessionproxy.yaml`,
		Args:    oneArg("name the configuration, such as sessionproxy.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			conf, err := config.Load(config.Source{File: args[0], LookupEnv: lookupEnv})
			if err != nil {
				return err
			}
			return printSummary(c.OutOrStdout(), args[0], conf)
		},
	}
}

func printSummary(w io.Writer, file string, c *config.Config) error {
	hosts := 0
	for _, s := range c.Sites {
		hosts += len(s.Hosts)
	}
	_, err := fmt.Fprintf(w, "%s is valid: %s, %s, %s\n", file, count(len(c.Sites), "site"), count(hosts, "host"), count(len(c.Clients), "client"))
	return err
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
