package trust

import (
	"context"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tool finds a program that the tests need; .ci/test installs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; .ci/test installs it", err)
	}
	return path
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// wantUndone checks what each store promises: installed, the certificate is
// there once, however often it was asked for, and uninstalled, the store is as
// it was before.
func wantUndone(t *testing.T, s Store, cert *x509.Certificate, list func() string) {
	t.Helper()
	before := list()
	do := func(what string, change func(Store, context.Context, *x509.Certificate) error) {
		t.Helper()
		if err := change(s, t.Context(), cert); err != nil {
			t.Fatalf("%s in %s: %v", what, s.Name(), err)
		}
	}
	do("uninstall what is not there", Store.Uninstall)
	if got := list(); got != before {
		t.Errorf("uninstalling what is not there changes the store from\n%s\nto\n%s", before, got)
	}
	do("install", Store.Install)
	do("install again", Store.Install)
	if got := strings.Count(list(), nickname(cert)) - strings.Count(before, nickname(cert)); got != 1 {
		t.Errorf("installed twice, the certificate is there %d times more:\n%s", got, list())
	}
	do("uninstall", Store.Uninstall)
	do("uninstall again", Store.Uninstall)
	if got := list(); got != before {
		t.Errorf("uninstalled, the store lists\n%s\nbefore it listed\n%s", got, before)
	}
}

func TestNSSIsUndone(t *testing.T) {
	t.Parallel()
	certutil := tool(t, "certutil")
	home := t.TempDir()
	places := []string{"pki [1]/.pki/nssdb", "pki [1]/.mozilla/firefox/a.default-release", "pki [1]/snap/chromium/current/.pki/nssdb"}
	for i, place := range places {
		places[i] = filepath.Join(home, place)
		if err := os.MkdirAll(places[i], 0o700); err != nil {
			t.Fatal(err)
		}
		output(t, certutil, "-d", "sql:"+places[i], "-N", "--empty-password")
	}
	// A profile that was never used has no database, and gets none.
	if err := os.MkdirAll(filepath.Join(home, "pki [1]/.mozilla/firefox/unused"), 0o700); err != nil {
		t.Fatal(err)
	}
	dbs, err := FindNSS(t.Context(), filepath.Join(home, "pki [1]"), true)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	cert := newRoot(t, "sessionproxy CA")
	for _, db := range dbs {
		found = append(found, db.Name())
		list := func() string { return output(t, certutil, "-d", "sql:"+db.Name(), "-L") }
		wantUndone(t, db, cert, list)
	}
	slices.Sort(found)
	slices.Sort(places)
	if !slices.Equal(found, places) {
		t.Errorf("found the databases %q, want %q", found, places)
	}
}

func TestNSSTrustsTheCertificateForServers(t *testing.T) {
	t.Parallel()
	certutil := tool(t, "certutil")
	home := t.TempDir()
	if dbs, err := FindNSS(t.Context(), home, false); err != nil || len(dbs) > 0 {
		t.Fatalf("an empty home has the databases %v (%v)", dbs, err)
	}
	dbs, err := FindNSS(t.Context(), home, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(dbs) != 1 || dbs[0].Name() != filepath.Join(home, ".pki/nssdb") {
		t.Fatalf("made the databases %v, want that of Chromium", dbs)
	}
	cert := newRoot(t, "sessionproxy CA")
	if err := dbs[0].Install(t.Context(), cert); err != nil {
		t.Fatal(err)
	}
	// -u L: valid as the authority of a TLS server.
	if got := output(t, certutil, "-d", "sql:"+dbs[0].Name(), "-V", "-u", "L", "-n", nickname(cert)); !strings.Contains(got, "is valid") {
		t.Errorf("certutil says: %s", got)
	}
}

func TestNSSReportsADamagedDatabase(t *testing.T) {
	t.Parallel()
	tool(t, "certutil")
	home := t.TempDir()
	dir := filepath.Join(home, ".pki/nssdb")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cert9.db"), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	dbs, err := FindNSS(t.Context(), home, false)
	if err != nil || len(dbs) != 1 {
		t.Fatalf("found %v (%v)", dbs, err)
	}
	cert := newRoot(t, "sessionproxy CA")
	for what, err := range map[string]error{
		"install":   dbs[0].Install(t.Context(), cert),
		"uninstall": dbs[0].Uninstall(t.Context(), cert),
	} {
		if err == nil || !strings.Contains(err.Error(), "certutil: exit status 255: certutil: ") {
			t.Errorf("%s: error %v, want what certutil says", what, err)
		}
	}
}

// javaHome is one with a store of its own, so that the machine's is left alone.
func javaHome(t *testing.T, lib string) string {
	t.Helper()
	home := t.TempDir()
	for _, dir := range []string{"bin", lib} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(tool(t, "keytool"), filepath.Join(home, "bin", "keytool")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, lib, "cacerts"), []byte("no store"), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestJavaIsUndone(t *testing.T) {
	t.Parallel()
	java, err := OpenJava(javaHome(t, "lib/security"))
	if err != nil {
		t.Fatal(err)
	}
	keytool := func(args ...string) string { return output(t, java.keytool, append(java.args(), args...)...) }
	add := func(alias string, cert *x509.Certificate) {
		keytool("-importcert", "-noprompt", "-alias", alias, "-file", write(t, pemOf(cert)))
	}
	if err := os.Remove(java.keystore); err != nil {
		t.Fatal(err)
	}
	add("other", newRoot(t, "other"))
	cert := newRoot(t, "sessionproxy CA")
	list := func() string { return keytool("-list") }
	wantUndone(t, java, cert, list)

	// Debian's hook gives the certificate a name of its own.
	before := list()
	add("debian:sessionproxy, ca.pem", cert)
	if err := java.Install(t.Context(), cert); err != nil {
		t.Fatal(err)
	}
	if got := list(); strings.Contains(got, nickname(cert)) {
		t.Errorf("installed where it is already, under another name:\n%s", got)
	}
	if err := java.Uninstall(t.Context(), cert); err != nil {
		t.Fatal(err)
	}
	if got := list(); got != before {
		t.Errorf("uninstalled under its other name, the store lists\n%s\nbefore it listed\n%s", got, before)
	}
}

func TestOpenJava(t *testing.T) {
	t.Parallel()
	for _, home := range []string{"", t.TempDir()} {
		if _, err := OpenJava(home); err == nil || !strings.Contains(err.Error(), "set JAVA_HOME") {
			t.Errorf("JAVA_HOME=%q: error %v, want one that says what to set", home, err)
		}
	}
	home := javaHome(t, "jre/lib/security") // Java 8's
	java, err := OpenJava(home)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(home, "jre/lib/security/cacerts"); java.Name() != want {
		t.Errorf("the store is %s, want %s", java.Name(), want)
	}
	if err := java.Install(t.Context(), newRoot(t, "sessionproxy CA")); err == nil || !strings.Contains(err.Error(), "keytool: exit status 1: keytool error: ") {
		t.Errorf("install into a damaged store: error %v, want what keytool says", err)
	}
}

func TestRunReportsWhatTheProgramSaid(t *testing.T) {
	t.Parallel()
	out, err := run(t.Context(), []byte("in"), "sh", "-c", "cat; echo noise >&2")
	if err != nil || string(out) != "in" {
		t.Errorf("output %q (%v), want the standard one", out, err)
	}
	_, err = run(t.Context(), nil, "sh", "-c", "echo one; echo two >&2; exit 3")
	if want := "sh: exit status 3: two one"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}
