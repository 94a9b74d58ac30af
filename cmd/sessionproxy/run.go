package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/internal/clientenv"
)

func runCommand(lookupEnv func(string) (string, bool)) *cobra.Command {
	source := clientenv.Source{LookupEnv: lookupEnv}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] CMD [ARG...]",
		Short: "Run a program whose requests go through the proxy",
		Long: `Run CMD with the variables set by which programs of all kinds learn of a proxy
and of the CA to trust: curl, wget, git, Python, Node (fetch from 22.21 and 24.5
on), Deno, Bun, Perl, Ruby, PHP, Java, Go, Rust and others. It starts no proxy,
prints nothing of its own, and CMD takes its place: signals reach CMD, and the
exit code is CMD's.

` + clientLong + `

Browsers take neither CA nor user name from the environment: trust the CA with
"sessionproxy ca install", and name the proxy as the browser wants it. wget is
told of the CA only where the user has no .wgetrc. A JVM prints the options that
it is given, and its clients send no user name: give it a port with a client
pinned to it.`,
		Example: `  sessionproxy run -- curl https://shop.example.com/
  sessionproxy run --client crawler --session qa1 -- scrapy crawl shop`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name the program to run")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if err := source.Check(); err != nil {
				return usageError{err, c.CommandPath()}
			}
			return runProgram(c.Context(), source, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows CMD is its own
	clientFlags(cmd, &source)
	return cmd
}

// clientLong tells what run and env have in common.
const clientLong = `The proxy is the one at --listen. Without it, the admin API is asked for the
proxy's ports, and the best is taken: one that is pinned to the client and the
session that are named; else one that asks for credentials where any are to be
sent, and one that does not where none are; better one without TLS.

--client, --worker and --session become the user name, with the client "run"
where none is named. Its password is that of SESSIONPROXY_PASSWORD or
--password-file.

The CA is ca.pem in the state directory. Most programs take roots in place of
their own, so they get a bundle: the roots in SSL_CERT_FILE, where it is set,
else the system's, and the CA. It is kept as ca-bundle.pem in the state
directory, beside its forms for Java, PHP and wget.

NO_PROXY is replaced by the admin API's address: all else goes through the proxy.`

// clientFlags are the flags of run and env.
func clientFlags(cmd *cobra.Command, s *clientenv.Source) {
	f := cmd.Flags()
	f.StringVar(&s.Listen, "listen", "", "the proxy's `ADDR`, or https://ADDR (default: ask the admin API)")
	f.StringVar(&s.Admin, "admin", "", adminUsage)
	f.StringVar(&s.State, "state", "", "`DIR` of the CA and the admin token "+stateDefault)
	f.StringVar(&s.Client, "client", "", "come as the client `NAME`")
	f.StringVar(&s.Worker, "worker", "", "come as the worker `ID` of the client")
	f.StringVar(&s.Session, "session", "", "use the session `ID`")
	f.StringVar(&s.PasswordFile, "password-file", "", "`FILE` whose first line is the client's password (default: SESSIONPROXY_PASSWORD)")
}

// runProgram ends only where the program can't be started.
func runProgram(ctx context.Context, source clientenv.Source, args []string) error {
	vars, err := source.Vars(ctx)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		failed := fmt.Errorf("run %s: %w", args[0], cause(err))
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return noProgram{failed}
		}
		return failed
	}
	// Handlers go with this program, but what it ignores its successor would
	// too: back to what the caller chose, such as nohup's SIGHUP.
	signal.Reset()
	return fmt.Errorf("run %s: %w", args[0], replaceProcess(path, args, clientenv.Merge(os.Environ(), vars)))
}

// noProgram says that there is nothing to run.
type noProgram struct{ error }

// cause is err without the name, which exec's errors repeat.
func cause(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	return err
}
