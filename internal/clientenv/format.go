package clientenv

import (
	"fmt"
	"path"
	"regexp"
	"runtime"
	"strings"
)

// Format is a language in which variables are set.
type Format string

// The values of Format.
const (
	Sh         Format = "sh"
	Fish       Format = "fish"
	PowerShell Format = "powershell"
	Dotenv     Format = "dotenv"
)

// Formats are all of them, for messages.
const Formats = "sh, fish, powershell or dotenv"

// FormatOf returns the format of a shell by its path, the value of SHELL.
func FormatOf(shell string) Format {
	switch name := path.Base(shell); {
	case name == "fish":
		return Fish
	case name == "pwsh", shell == "" && runtime.GOOS == "windows":
		return PowerShell
	}
	return Sh
}

// Check says where f is none of the formats.
func (f Format) Check() error {
	switch f {
	case Sh, Fish, PowerShell, Dotenv:
		return nil
	}
	return fmt.Errorf("--format %q: write %s", string(f), Formats)
}

// Write returns the lines that set vars when they are evaluated. Each format
// takes each value, but for dotenv.
func (f Format) Write(vars []Var) (string, error) {
	var b strings.Builder
	for _, v := range vars {
		line, err := f.line(v)
		if err != nil {
			return "", err
		}
		b.WriteString(line + "\n")
	}
	return b.String(), nil
}

func (f Format) line(v Var) (string, error) {
	switch f {
	case Fish:
		return "set -gx " + v.Name + " '" + fishQuoted.Replace(v.Value) + "'", nil
	case PowerShell:
		return "$env:" + v.Name + " = '" + powerShellQuoted.Replace(v.Value) + "'", nil
	case Dotenv:
		return dotenvLine(v)
	}
	return "export " + v.Name + "='" + strings.ReplaceAll(v.Value, "'", `'\''`) + "'", nil
}

var (
	// https://fishshell.com/docs/current/language.html#quotes
	fishQuoted = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	// PowerShell takes the typographic quotes for plain ones, and each is
	// written twice (about_Quoting_Rules; CharTraits.cs, IsSingleQuote).
	powerShellQuoted = strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019", "\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b")

	dotenvPlain = regexp.MustCompile(`^[A-Za-z0-9_./:@%,+=~-]*$`)
)

// dotenvLine writes what all readers of such files agree on: a plain word, or
// single quotes, in which nothing is special. They have no common escapes.
func dotenvLine(v Var) (string, error) {
	switch {
	case dotenvPlain.MatchString(v.Value):
		return v.Name + "=" + v.Value, nil
	case strings.ContainsAny(v.Value, "'\r\n"):
		return "", fmt.Errorf("%s holds a quote or a line break, which .env files cannot; choose another format, or a state directory without one in its path", v.Name)
	}
	return v.Name + "='" + v.Value + "'", nil
}
