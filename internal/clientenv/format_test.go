package clientenv

import (
	"os/exec"
	"strings"
	"testing"
)

// hostile are values that a careless quoting would run, cut or change.
var hostile = []Var{
	{"PLAIN", "http://run-session-qa1:x@127.0.0.1:8080"},
	{"EMPTY", ""},
	{"SPACES", "  -Da=b  -Dc=d "},
	{"SINGLE", "o'brien's"},
	{"DOUBLE", `say "hi"`},
	{"DOLLAR", "$HOME ${HOME} $(id) `id` %HOME% $env:HOME"},
	{"BACKSLASH", `a\b\\c\'d\`},
	{"LINES", "one\ntwo\r\n'three'\n"},
	{"MARKS", "# * ? [a] {b} ~ ! & ; | < > ( ) = ^"},
	{"TYPOGRAPHIC", "\u2018a\u2019 \u201ab\u201b \u201cc\u201d"},
}

// show prints each variable between marks that no value holds.
func show() string {
	var b strings.Builder
	for _, v := range hostile {
		b.WriteString(`printf '<%s>' "$` + v.Name + "\"\n")
	}
	return b.String()
}

func shown(vars []Var) string {
	var b strings.Builder
	for _, v := range vars {
		b.WriteString("<" + v.Value + ">")
	}
	return b.String()
}

func TestShellsReadTheValues(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		format Format
		shell  []string
	}{
		{Sh, []string{"sh", "-euc"}},
		{Sh, []string{"bash", "-euc"}},
		{Fish, []string{"fish", "--no-config", "-c"}},
	} {
		t.Run(tt.shell[0], func(t *testing.T) {
			t.Parallel()
			shell, err := exec.LookPath(tt.shell[0])
			if err != nil {
				t.Fatalf("%v; .ci/test installs it", err)
			}
			lines, err := tt.format.Write(hostile)
			if err != nil {
				t.Fatal(err)
			}
			// As users do it: by eval, or by source.
			out, err := exec.CommandContext(t.Context(), shell, append(tt.shell[1:], lines+show())...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got, want := string(out), shown(hostile); got != want {
				t.Errorf("the shell has\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestDotenvIsReadByShToo(t *testing.T) {
	t.Parallel()
	var vars []Var
	for _, v := range hostile {
		if _, err := Dotenv.Write([]Var{v}); err == nil {
			vars = append(vars, v)
		} else if !strings.ContainsAny(v.Value, "'\n") || !strings.HasPrefix(err.Error(), v.Name+" holds a quote or a line break") {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
	lines, err := Dotenv.Write(vars)
	if err != nil {
		t.Fatal(err)
	}
	script := "set -a\n" + lines
	for _, v := range vars {
		script += `printf '<%s>' "$` + v.Name + "\"\n"
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
	if got, want := string(out), shown(vars); err != nil || got != want {
		t.Errorf("the shell has\n%s (%v)\nwant\n%s", got, err, want)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		format Format
		value  string
		want   string
	}{
		{"sh ends the quotes for a quote", Sh, `o'b`, `export X='o'\''b'`},
		{"fish escapes quotes and backslashes", Fish, `o'b\c`, `set -gx X 'o\'b\\c'`},
		{"PowerShell writes a quote twice", PowerShell, "o'b", "$env:X = 'o''b'"},
		{"PowerShell takes these for quotes too", PowerShell, "a\u2018b\u2019c\u201ad\u201be", "$env:X = 'a\u2018\u2018b\u2019\u2019c\u201a\u201ad\u201b\u201be'"},
		{"PowerShell reads nothing else within quotes", PowerShell, "`$x \"y\"\nz", "$env:X = '`$x \"y\"\nz'"},
		{"dotenv writes a plain word as it is", Dotenv, "http://u:p%40@127.0.0.1:80", "X=http://u:p%40@127.0.0.1:80"},
		{"dotenv quotes what is not plain", Dotenv, `a b #c "$d"`, `X='a b #c "$d"'`},
		{"dotenv writes an empty value", Dotenv, "", "X="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, err := tt.format.Write([]Var{{"X", tt.value}}); err != nil || got != tt.want+"\n" {
				t.Errorf("%s writes %q as\n%s (%v)\nwant\n%s", tt.format, tt.value, got, err, tt.want)
			}
		})
	}
}

func TestFormatOfAShell(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]Format{
		"/bin/bash":          Sh,
		"/usr/bin/zsh":       Sh,
		"/usr/bin/fish":      Fish,
		"/opt/ps/7/pwsh":     PowerShell,
		"/usr/bin/notfish.x": Sh,
	} {
		if got := FormatOf(shell); got != want {
			t.Errorf("%s reads %s, want %s", shell, got, want)
		}
	}
	for _, f := range []Format{Sh, Fish, PowerShell, Dotenv} {
		if err := f.Check(); err != nil {
			t.Error(err)
		}
	}
	if err := Format("csh").Check(); err == nil || err.Error() != `--format "csh": write sh, fish, powershell or dotenv` {
		t.Errorf("csh: %v", err)
	}
}
