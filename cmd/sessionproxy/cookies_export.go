package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/cookiefile"
)

func exportCommand(a *api) *cobra.Command {
	var format, tool, configFile string
	formats := slices.DeleteFunc(cookiefile.Formats(), func(f cookiefile.Format) bool { return f == cookiefile.HAR })
	var tools []string
	for _, t := range cookiefile.Tools {
		tools = append(tools, t.Name)
	}
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the cookies of a session, with their values, to a file",
		Long: `Write the cookies of a session, with their values, to FILE, which only you can
read then, or to standard output. Whoever has the file is logged in.

What the format can't hold is said on standard error. With --for the line to use
the file by is printed, too.

Where no proxy runs, the store in --state is read itself.`,
		Example: `  sessionproxy cookies export --for curl cookies.txt
  sessionproxy cookies export --for playwright state.json
  sessionproxy cookies export --session qa1 --format cdp | jq length`,
		Args: oneOrNone("name the file"),
		RunE: func(c *cobra.Command, args []string) error {
			usage := func(format string, args ...any) error {
				return usageError{fmt.Errorf(format, args...), c.CommandPath()}
			}
			t, known := cookiefile.ToolNamed(tool)
			switch {
			case format != "" && tool != "":
				return usage("--format and --for: name one of them")
			case a.json && (format != "" || tool != "" || len(args) > 0):
				return usage("--json prints the API's own answer, and goes with no format, tool or file")
			case format == "" && tool == "" && len(args) > 0 && strings.EqualFold(filepath.Ext(args[0]), ".json"):
				return usage("cookies export: %s would be a cookies.txt, which is no JSON: say with --for or --format what is to read it", args[0])
			case tool != "" && !known:
				return usage("--for %s: known are %s", tool, listed(tools))
			case format != "" && !slices.Contains(formats, cookiefile.Format(format)):
				return usage("--format %s: can be written: %s", format, listed(formats))
			}
			b, err := a.exportFrom(c, configFile)
			if err != nil {
				return err
			}
			if a.json {
				_, err := c.OutOrStdout().Write(b)
				return err
			}
			exported, err := decode[admin.CookiesExported](b)
			if err != nil {
				return err
			}
			write := func(w io.Writer, cookies []session.Cookie) ([]string, error) {
				if known {
					return t.Write(w, cookies)
				}
				return cookiefile.Write(w, cookiefile.Format(cmp.Or(format, string(cookiefile.Netscape))), cookies)
			}
			file := ""
			if len(args) > 0 && args[0] != "-" {
				file = args[0]
			}
			if err := export(c, file, exported, write); err != nil || !known {
				return err
			}
			// The line, beside the file and not in it.
			w := c.OutOrStdout()
			if file == "" {
				file, w = "FILE", c.ErrOrStderr()
			}
			_, err = fmt.Fprintln(w, t.Use(file, exported.Cookies[0].Domain))
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the file: "+listed(formats)+` (default "netscape", which is cookies.txt)`)
	cmd.Flags().StringVar(&tool, "for", "", "in the form that `TOOL` reads, with the line to use it: "+listed(tools))
	completes(cmd, "format", formats)
	completes(cmd, "for", tools)
	configFlag(cmd, &configFile)
	return cmd
}

// exportFrom asks the running proxy, else looks into the store.
func (a *api) exportFrom(c *cobra.Command, configFile string) ([]byte, error) {
	if runs, err := a.proxyRuns(c); err != nil {
		return nil, err
	} else if !runs {
		d, err := a.openStore(c, configFile, false)
		if err != nil {
			return nil, err
		}
		done, err := admin.Export(c.Context(), d.store, d.site, d.session)
		if err == nil && len(done.Cookies) == 0 {
			err = fmt.Errorf("the site %q has no session %q that holds cookies", d.site.Name, d.session)
		}
		return d.answer(c, done, err)
	}
	path, err := a.sessionPath(c, "cookies", "export")
	if err != nil {
		return nil, err
	}
	return a.do(c, http.MethodPost, path, nil)
}

// export writes the cookies to a file, "" standard output, and the remarks.
func export(c *cobra.Command, file string, exported admin.CookiesExported, write func(io.Writer, []session.Cookie) ([]string, error)) error {
	var cookies []session.Cookie
	for i := range exported.Cookies {
		cookies = append(cookies, exported.Cookies[i].Cookie())
	}
	var b bytes.Buffer
	remarks, err := write(&b, cookies)
	if err == nil && file == "" {
		_, err = b.WriteTo(c.OutOrStdout())
	} else if err == nil {
		err = replaceFile(file, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the cookies: %w", err)
	}
	for _, remark := range remarks {
		fmt.Fprintln(c.ErrOrStderr(), remark)
	}
	return nil
}

// replaceFile writes a file that only its owner can read, all of it or none.
// What is no file, such as a pipe, it writes to.
func replaceFile(path string, content []byte) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // else the link would be replaced, and not what it names
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeTo(path, content)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cookies-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func writeTo(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}
