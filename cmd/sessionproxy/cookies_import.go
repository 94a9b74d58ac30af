package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session/cookiefile"
)

func importCommand(a *api) *cobra.Command {
	var format, configFile string
	var replace, dryRun bool
	cmd := &cobra.Command{
		Use:   "import [FILE]",
		Short: "Take the cookies of a file into a session",
		Long: `Take the cookies of a file, or of standard input, into a session, all at once.
They are merged with those that it holds, or with --replace take their place.
The file's format is found out: cookies.txt, Playwright's storageState, the JSON
of Puppeteer, Selenium, the DevTools Protocol, Cookie-Editor or EditThisCookie,
or a HAR.

Where no proxy runs, the store in --state is opened itself. What the site's
hosts are, --config FILE says then; else --site HOST is taken as by
"serve --share HOST".`,
		Example: `  sessionproxy cookies import state.json
  sessionproxy cookies import --session qa1 --replace --dry-run cookies.txt`,
		Args: oneOrNone("name the file"),
		RunE: func(c *cobra.Command, args []string) error {
			f := cookiefile.Format(format)
			if format != "" && !slices.Contains(cookiefile.Formats(), f) {
				return usageError{fmt.Errorf("--format %s: known are %s", format, listed(cookiefile.Formats())), c.CommandPath()}
			}
			file, name, err := readCookies(c, args, f)
			if err != nil {
				return err
			}
			body := admin.ImportCookies{Replace: replace, DryRun: dryRun}
			for i := range file.Cookies {
				body.Cookies = append(body.Cookies, admin.ValueOf(&file.Cookies[i]))
			}
			b, err := a.importInto(c, configFile, body)
			if err != nil {
				return err
			}
			if err := report(a, c.OutOrStdout(), b, showImport); err != nil {
				return err
			}
			if done, err := decode[admin.CookiesImported](b); err != nil || done.Taken == 0 {
				return errors.Join(err, fmt.Errorf("import %s: no cookie was taken, and nothing changed", name))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the file, where it is not to be found out: "+listed(cookiefile.Formats()))
	completes(cmd, "format", cookiefile.Formats())
	cmd.Flags().BoolVar(&replace, "replace", false, "remove what the session holds and the file does not")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would become of each cookie, and change nothing")
	configFlag(cmd, &configFile)
	return cmd
}

// oneOrNone takes one argument at most.
func oneOrNone(wanted string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return fmt.Errorf("%s takes one argument, not %d: %s", words(c), len(args), wanted)
		}
		return nil
	}
}

// readCookies reads the file that the arguments name, else standard input, and
// prints the remarks on it.
func readCookies(c *cobra.Command, args []string, format cookiefile.Format) (file *cookiefile.File, name string, err error) {
	in, name := c.InOrStdin(), "standard input"
	if len(args) > 0 && args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return nil, "", fmt.Errorf("read the cookies: %w", err)
		}
		defer f.Close()
		in, name = f, args[0]
	} else if f, ok := in.(*os.File); ok && isTerminal(f) && len(args) == 0 {
		return nil, "", usageError{errors.New("cookies import: name the file, or - for standard input"), c.CommandPath()}
	}
	file, err = cookiefile.Read(in, format)
	if fault, ok := errors.AsType[*cookiefile.Error](err); ok {
		return nil, "", fmt.Errorf("read the cookies: %s:%w; nothing was imported", name, fault)
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the cookies: %w", err)
	}
	for _, remark := range file.Remarks {
		fmt.Fprintln(c.ErrOrStderr(), remark)
	}
	if len(file.Cookies) == 0 {
		return nil, "", fmt.Errorf("import %s: it holds no cookies", name)
	}
	return file, name, nil
}

// importInto imports by the API of the running proxy, else into the store.
func (a *api) importInto(c *cobra.Command, configFile string, body admin.ImportCookies) ([]byte, error) {
	if runs, err := a.proxyRuns(c); err != nil {
		return nil, err
	} else if !runs {
		d, err := a.openStore(c, configFile, true)
		if err != nil {
			return nil, err
		}
		done, err := admin.Import(c.Context(), d.store, d.sites, d.site, d.session, body)
		return d.answer(c, done, err)
	}
	path, err := a.sessionPath(c, "cookies", "import")
	if err != nil {
		return nil, err
	}
	return a.do(c, http.MethodPost, path, body)
}

// maxRows is how many cookies are shown one by one.
const maxRows = 50

func showImport(w io.Writer, r admin.CookiesImported) error {
	rows := [][]string{{"COOKIE", "DOMAIN", "PATH", "RESULT"}}
	shown := 0
	for _, c := range r.Cookies {
		if len(r.Cookies) > maxRows && (c.Result != admin.Refused || shown == maxRows) {
			continue
		}
		result := string(c.Result)
		if c.Result == admin.Refused {
			result += ": " + c.Reason
		}
		rows = append(rows, []string{cookieName(c.Name), printable(c.Domain), printable(c.Path), result})
		shown++
	}
	if shown > 0 {
		if err := table(w, rows); err != nil {
			return err
		}
	}
	if n := len(r.Cookies) - shown; n > 0 {
		fmt.Fprintf(w, "… and %d more; --json shows all.\n", n)
	}
	what := "Imported"
	if r.DryRun {
		what = "Would import"
	}
	refused := ""
	if r.Refused > 0 {
		refused = fmt.Sprintf("; %d refused", r.Refused)
	}
	fmt.Fprintf(w, "\n%s %s into the session %s of %s%s.\n", what, counted(r.Taken), r.Session, r.Site, refused)
	if len(r.Removed) == 0 {
		return nil
	}
	var names []string
	for _, c := range r.Removed[:min(len(r.Removed), maxRows)] {
		names = append(names, cookieName(c.Name))
	}
	more := ""
	if n := len(r.Removed) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	what = "Removed from it"
	switch {
	case r.DryRun:
		what = "It would lose"
	case !r.Replace:
		what = "Pushed out by the limits of a session"
	}
	_, err := fmt.Fprintf(w, "%s: %s%s.\n", what, strings.Join(names, ", "), more)
	return err
}

// listed lists words.
func listed[T ~string](list []T) string {
	var words []string
	for _, w := range list {
		words = append(words, string(w))
	}
	return strings.Join(words, ", ")
}
