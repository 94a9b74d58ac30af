package trust

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Java is the store of one Java. truststore's own finds a certificate by a name
// that another program, such as Debian's, does not give it.
type Java struct{ keytool, keystore string }

// OpenJava returns the store of the Java in home, the value of JAVA_HOME.
func OpenJava(home string) (Java, error) {
	if home != "" {
		for _, keytool := range []string{"keytool", "keytool.exe"} {
			for _, lib := range []string{"lib", "jre/lib"} { // the latter up to Java 8
				j := Java{filepath.Join(home, "bin", keytool), filepath.Join(home, lib, "security", "cacerts")}
				if isFile(j.keytool) && isFile(j.keystore) {
					return j, nil
				}
			}
		}
	}
	return Java{}, errors.New("find Java's store: set JAVA_HOME to a directory with bin/keytool and lib/security/cacerts")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Name implements [Store].
func (j Java) Name() string { return j.keystore }

// Install implements [Store].
func (j Java) Install(ctx context.Context, cert *x509.Certificate) error {
	names, err := j.names(ctx, cert)
	if err != nil || len(names) > 0 {
		return err
	}
	pemData := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	return j.change(ctx, pemData, "-importcert", "-noprompt", "-trustcacerts", "-alias", nickname(cert))
}

// Uninstall implements [Store].
func (j Java) Uninstall(ctx context.Context, cert *x509.Certificate) error {
	names, err := j.names(ctx, cert)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := j.change(ctx, nil, "-delete", "-alias", name); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names under which the store has the certificate.
func (j Java) names(ctx context.Context, cert *x509.Certificate) ([]string, error) {
	out, err := run(ctx, nil, j.keytool, append(j.args(), "-list", "-rfc")...)
	if err != nil {
		return nil, err
	}
	var names []string
	name := ""
	for line := range strings.Lines(string(out)) {
		if n, ok := strings.CutPrefix(line, "Alias name: "); ok {
			name = strings.TrimSpace(n)
		}
		if !strings.HasPrefix(line, "-----BEGIN") {
			continue
		}
		block, rest := pem.Decode(out)
		if block == nil {
			return nil, fmt.Errorf("list %s: keytool's answer holds a certificate that is none", j.keystore)
		}
		if bytes.Equal(block.Bytes, cert.Raw) {
			names = append(names, name)
		}
		out = rest
	}
	return names, nil
}

func (j Java) change(ctx context.Context, stdin []byte, args ...string) error {
	command := append([]string{j.keytool}, append(j.args(), args...)...)
	f, err := os.OpenFile(j.keystore, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	} else if errors.Is(err, os.ErrPermission) {
		command, err = asRoot(command...), needRoot()
	}
	if err != nil {
		return err
	}
	_, err = run(ctx, stdin, command[0], command[1:]...)
	return err
}

// args are those of every call: keytool speaks the user's language unless told
// otherwise, and the password is the one that each Java comes with.
func (j Java) args() []string {
	return []string{"-J-Duser.language=en", "-keystore", j.keystore, "-storepass", "changeit"}
}
