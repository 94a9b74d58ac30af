package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts the environment's variables and files into a value: ${NAME} and
// ${file:PATH}, less a file's last newline. $${ is a plain ${. What is put in
// stays part of the value, whatever it holds. A message says what went wrong.
func (d *decoder) expand(text string) (expanded, message, remedy string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), "", ""
		}
		if strings.HasSuffix(before, "$") {
			b.WriteString(before[:len(before)-1] + "${")
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", "this ${ has no }", "write ${NAME} or ${file:PATH}; a plain ${ is $${"
		}
		b.WriteString(before)
		value, message, remedy := d.variable(name)
		if message != "" {
			return "", message, remedy
		}
		b.WriteString(value)
		text = after
	}
}

func (d *decoder) variable(name string) (value, message, remedy string) {
	if file, ok := strings.CutPrefix(name, "file:"); ok {
		if !filepath.IsAbs(file) {
			file = filepath.Join(d.dir, file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Sprintf("read %s: %s", file, reason(err)), missingFile
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), "", ""
	}
	if !variable.MatchString(name) {
		return "", "this ${…} names no variable", "write ${NAME} or ${file:PATH}; a plain ${ is $${"
	}
	value, set := d.lookup(name)
	if !set {
		return "", fmt.Sprintf("the environment variable %s is not set", name), "set it, or correct the name"
	}
	return value, "", ""
}

// reason is what a file error says beside operation and path.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
