package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// lookEvery is how often --watch asks.
const lookEvery = time.Second

func watchFlag(cmd *cobra.Command, follow *bool) {
	cmd.Flags().BoolVarP(follow, "watch", "w", false, "go on until Ctrl-C: redraw on a terminal, else print a line for each change")
}

// view is an answer in two forms: as a table, and as lines by what each is
// about, which say nothing that changes by itself.
type view[T any] struct {
	show  func(io.Writer, T) error
	lines func(T) map[string]string
}

// watch asks again and again until the command ends. A session that is not
// there may yet come.
func watch[T any](a *api, c *cobra.Command, every time.Duration, ask func() ([]byte, error), v view[T]) error {
	w := c.OutOrStdout()
	show := changes(a, w, v)
	if isTerminal(w) && !a.json {
		show = redraw(w, v)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		answer, err := ask()
		if p, ok := errors.AsType[*admin.Problem](err); ok && p.Code == "unknown_session" {
			answer, err = []byte("{}"), nil
		}
		if c.Context().Err() != nil {
			return nil
		}
		if err == nil {
			err = show(answer)
		}
		if err != nil {
			return err
		}
		select {
		case <-c.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// redraw shows each answer in the place of the one before.
func redraw[T any](w io.Writer, v view[T]) func([]byte) error {
	return func(answer []byte) error {
		decoded, err := decode[T](answer)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		b.WriteString("\x1b[H\x1b[2J") // home, and clear
		fmt.Fprintf(&b, "%s  (Ctrl-C ends)\n\n", time.Now().Format(time.TimeOnly))
		if err := v.show(&b, decoded); err != nil {
			return err
		}
		_, err = b.WriteTo(w)
		return err
	}
}

// changes prints the lines that are new in an answer, and those that are gone;
// for --json the answer, where it is new.
func changes[T any](a *api, w io.Writer, v view[T]) func([]byte) error {
	var last []byte
	before := map[string]string{}
	return func(answer []byte) error {
		if a.json {
			if bytes.Equal(answer, last) {
				return nil
			}
			last = answer
			_, err := fmt.Fprintln(w, strings.TrimSpace(string(answer)))
			return err
		}
		decoded, err := decode[T](answer)
		if err != nil {
			return err
		}
		now := v.lines(decoded)
		at := time.Now().Format(time.RFC3339)
		for _, about := range slices.Sorted(maps.Keys(before)) {
			if _, held := now[about]; !held {
				fmt.Fprintf(w, "%s %s: gone\n", at, about)
			}
		}
		for _, about := range slices.Sorted(maps.Keys(now)) {
			if now[about] != before[about] {
				fmt.Fprintf(w, "%s %s: %s\n", at, about, now[about])
			}
		}
		before = now
		return nil
	}
}

func sessionLines(list admin.Sessions) map[string]string {
	lines := map[string]string{}
	for _, s := range list.Sessions {
		lines[s.Site+" "+s.Session] = sessionLine(&s, s.Cookies)
	}
	return lines
}

func sessionLine(s *admin.Session, cookies int) string {
	line := fmt.Sprintf("%s, %s", s.State, counted(cookies))
	if by := usedBy(s); by != "-" {
		line += ", used by " + by
	}
	return line
}

func cookieLines(s admin.SessionDetail) map[string]string {
	if s.Site == "" {
		return nil // there is none
	}
	lines := map[string]string{"session " + s.Session.Session: sessionLine(&s.Session, len(s.Cookies))}
	for _, c := range s.Cookies {
		about := fmt.Sprintf("cookie %s of %s%s", cookieName(c.Name), dotted(c), printable(c.Path))
		lines[about] = fmt.Sprintf("set by %s at %s, %d B, %s", c.Writer, time.UnixMicro(c.Version).UTC().Format(time.RFC3339), c.ValueBytes, attributes(c))
	}
	return lines
}

// isTerminal says whether a person looks at w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
