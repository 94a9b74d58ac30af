package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Store is one place where programs look for roots. Both changes may be asked
// for where nothing is left to do, and change nothing then.
type Store interface {
	Name() string // for people
	Install(context.Context, *x509.Certificate) error
	Uninstall(context.Context, *x509.Certificate) error
}

// run runs a program and returns what it wrote to standard output.
func run(ctx context.Context, stdin []byte, name string, args ...string) (stdout []byte, err error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // keytool or certutil
	var out, all bytes.Buffer
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out, &all
	if err := cmd.Run(); err != nil {
		all.Write(out.Bytes()) // keytool writes its errors to either
		return nil, commandError(cmd, all.Bytes(), err)
	}
	return out.Bytes(), nil
}

func commandError(cmd *exec.Cmd, out []byte, err error) error {
	err = fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	if said := bytes.Join(bytes.Fields(out), []byte(" ")); len(said) > 0 {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// asRoot puts sudo before a command, where there is one and the user is not
// root. It asks for the password on the terminal.
func asRoot(command ...string) []string {
	if sudo, err := exec.LookPath("sudo"); err == nil && os.Geteuid() > 0 { // -1 on Windows
		return append([]string{sudo, "--"}, command...)
	}
	return command
}
