package admin

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// tokenFile holds the token: one line of base64url, 32 random bytes.
const (
	tokenFile  = "admin.token"
	tokenBytes = 32
)

// Token returns the token in stateDir/admin.token, and makes it, readable by
// its owner alone, where there is none. A new stateDir gets mode 0700. Several
// processes may do so at once: all get the same token. A file that other users
// may read, or that holds no token, is an error that names the remedy.
func Token(stateDir string) (string, error) {
	path := filepath.Join(stateDir, tokenFile)
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeToken(stateDir, path)
		if err == nil || errors.Is(err, fs.ErrExist) { // another process was first
			token, err = readToken(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("open admin token: %w", err)
	}
	return token, nil
}

// ReadToken returns the token in stateDir/admin.token and never makes one:
// where there is none, no proxy has run with stateDir, and the error is
// [fs.ErrNotExist].
func ReadToken(stateDir string) (string, error) {
	token, err := readToken(filepath.Join(stateDir, tokenFile))
	if err != nil {
		return "", fmt.Errorf("read admin token: %w", err)
	}
	return token, nil
}

func readToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat() // of what is open, not of what path names by now
	if err != nil {
		return "", err
	}
	// Windows has no such modes.
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return "", fmt.Errorf("%s: mode %04o opens the token to other users; remove it to have a new one made, or chmod 600 %[1]s", path, mode)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	token := strings.TrimRight(string(b), "\r\n")
	// The decoder passes over line ends, so the length of the text counts too.
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenBytes || len(token) != base64.RawURLEncoding.EncodedLen(tokenBytes) {
		return "", fmt.Errorf("%s: no token in it; remove it to have a new one made", path)
	}
	return token, nil
}

// makeToken puts a new token at path, whole, or returns fs.ErrExist where a
// file is already: a link, unlike a rename, replaces none.
func makeToken(stateDir, path string) error {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(stateDir, "."+tokenFile+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	raw := make([]byte, tokenBytes)
	rand.Read(raw) // never fails, see its documentation
	_, err = fmt.Fprintln(f, base64.RawURLEncoding.EncodeToString(raw))
	// Synced before it has its name: a power cut leaves the token or nothing.
	if err := cmp.Or(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}
