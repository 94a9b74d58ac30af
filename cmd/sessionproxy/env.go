package main

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/clientenv"
)

func envCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	source := clientenv.Source{LookupEnv: lookupEnv}
	var format string
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the variables that send a program's requests through the proxy",
		Long: `Print the variables that "run" sets, as lines for a shell to evaluate or as an
.env file. They hold the client's password where it has one: do not print them
into a log.

` + clientLong,
		Example: `  eval "$(sessionproxy env)"
  sessionproxy env --format fish | source
  sessionproxy env --format powershell | Out-String | Invoke-Expression
  sessionproxy env --client crawler --format dotenv > .env`,
		RunE: func(c *cobra.Command, _ []string) error {
			shell, _ := lookupEnv("SHELL")
			f := clientenv.Format(cmp.Or(format, string(clientenv.FormatOf(shell))))
			if err := cmp.Or(f.Check(), source.Check()); err != nil {
				return usageError{err, c.CommandPath()}
			}
			vars, err := source.Vars(c.Context())
			if err != nil {
				return err
			}
			text, err := f.Write(vars)
			if err != nil {
				return err
			}
			_, err = io.WriteString(c.OutOrStdout(), text)
			return err
		},
	}
	clientFlags(cmd, &source)
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the lines: "+clientenv.Formats+" (default: that of SHELL)")
	completes(cmd, "format", []clientenv.Format{clientenv.Sh, clientenv.Fish, clientenv.PowerShell, clientenv.Dotenv})
	return cmd
}
