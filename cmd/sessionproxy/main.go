// Command sessionproxy is a forward proxy whose clients share one logged-in
// session per site. Only this package reads flags, the environment and
// signals; each command has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or configuration

	exitNoProgram = 127 // run: there is no such program, as shells say it
)

// run is the whole program. It ends when the command is done, or on the first
// SIGINT or SIGTERM once what is under way has finished; a second one ends it
// at once.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // restores the signals: the second one kills

	root := rootCommand(lookupEnv)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitDone
	case cmd == root: // cobra's "unknown command"
		err = usageError{err, root.CommandPath()}
	}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		fmt.Fprintln(stderr, faults)
		return exitUsage
	}
	fmt.Fprintf(stderr, "sessionproxy: %v\n", err)
	if usage, ok := errors.AsType[usageError](err); ok {
		fmt.Fprintf(stderr, "Try %q.\n", usage.command+" --help")
		return exitUsage
	}
	if _, ok := errors.AsType[noProgram](err); ok {
		return exitNoProgram
	}
	return exitFailed
}

// rootCommand is all that can be said on the command line.
func rootCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	root := &cobra.Command{
		Use:           "sessionproxy",
		Short:         "A forward proxy whose clients share one logged-in session per site",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(serveCommand(lookupEnv), demoCommand(), runCommand(lookupEnv), envCommand(lookupEnv),
		checkCommand(lookupEnv), caCommand(lookupEnv), sessionsCommand(lookupEnv), cookiesCommand(lookupEnv),
		captchaCommand(lookupEnv), explainCommand(lookupEnv), upstreamsCommand(lookupEnv), storeCommand(lookupEnv), traceCommand(lookupEnv),
		accessCommand(lookupEnv), operatorsCommand(lookupEnv), versionCommand())
	root.InitDefaultHelpCmd() // now, so that its arguments are checked, too
	for _, c := range root.Commands() {
		checkArgs(c)
	}
	return root
}

// usageError is a command line that can't be meant.
type usageError struct {
	error
	command string
}

func (e usageError) Unwrap() error { return e.error }

// usageTemplate is cobra's, where a command that has others below it can't be
// run by itself.
func usageTemplate(of string) string {
	return strings.NewReplacer(
		"{{if .Runnable}}", "{{if not .HasAvailableSubCommands}}",
		"[command]", "COMMAND",
	).Replace(of)
}

// checkArgs makes a wrong number of arguments an error of usage, in c and the
// commands below it.
func checkArgs(c *cobra.Command) {
	check := c.Args
	switch {
	case check == nil && c.Name() == "help":
		check = topic
	case check == nil && c.HasSubCommands():
		check = cobra.NoArgs // "unknown command"
	case check == nil:
		check = noArgs("")
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usageError{err, c.CommandPath()}
		}
		return nil
	}
	for _, below := range c.Commands() {
		checkArgs(below)
	}
}

// topic wants the words of a command, or none.
func topic(c *cobra.Command, args []string) error {
	_, _, err := c.Root().Find(args)
	return err
}

// noArgs refuses arguments, and says how what they may mean is given.
func noArgs(instead string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return nil
		case instead == "":
			return fmt.Errorf("%s takes no argument", words(c))
		}
		return fmt.Errorf("%s takes no argument: %s", words(c), instead)
	}
}

// oneArg wants one argument, and says what it is.
func oneArg(wanted string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("%s: %s", words(c), wanted)
		case 1:
			return nil
		}
		return fmt.Errorf("%s takes one argument, not %d: %s", words(c), len(args), wanted)
	}
}

// words are what calls a command of the program.
func words(c *cobra.Command) string {
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
}
