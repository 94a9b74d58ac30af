package admin

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestTokenIsMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "state")
	token, err := Token(dir)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(token); err != nil || len(raw) != 32 {
		t.Errorf("token %q is %d bytes of base64url (%v), want 32", token, len(raw), err)
	}
	path := filepath.Join(dir, "admin.token")
	for _, tt := range []struct {
		path string
		want fs.FileMode
	}{{dir, 0o700}, {path, 0o600}} {
		info, err := os.Stat(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != tt.want {
			t.Errorf("%s has mode %04o, want %04o", tt.path, got, tt.want)
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != token+"\n" {
		t.Errorf("file holds %q (%v), want the token and a line end", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v in the directory (%v), want the token alone", entries, err)
	}

	if again, err := Token(dir); err != nil || again != token {
		t.Errorf("the second start has %q (%v), want the same token", again, err)
	}
	if other, err := Token(t.TempDir()); err != nil || other == token {
		t.Errorf("another state directory has the token %q (%v)", other, err)
	}
}

func TestTokenAtOnceAgrees(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir := filepath.Join(t.TempDir(), "state")
		var got [8]string
		var errs [8]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range got {
			wg.Go(func() {
				<-start
				got[i], errs[i] = Token(dir)
			})
		}
		close(start)
		wg.Wait()
		for i, token := range got {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if token != got[0] {
				t.Fatal("two processes on one directory have two tokens")
			}
		}
	}
}

func TestTokenFile(t *testing.T) {
	t.Parallel()
	const token = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	const none = "DIR/admin.token: no token in it; remove it to have a new one made"
	for _, tt := range []struct {
		name, content string
		mode          fs.FileMode
		want          string // of the error; "": it is taken
	}{
		{"a line", token + "\n", 0o600, ""},
		{"without a line end", token, 0o600, ""},
		{"a line from Windows", token + "\r\n", 0o600, ""},
		{"that not even its owner may write", token + "\n", 0o400, ""},
		{"empty", "", 0o600, none},
		{"a line end alone", "\n", 0o600, none},
		{"torn", token[:20], 0o600, none},
		{"of a byte too few", base64.RawURLEncoding.EncodeToString(make([]byte, 31)), 0o600, none},
		{"of a byte too many", base64.RawURLEncoding.EncodeToString(make([]byte, 33)), 0o600, none},
		{"with something behind it", token + "\nx", 0o600, none},
		{"with a line end inside", token[:20] + "\n" + token[20:], 0o600, none},
		{"with a space before it", " " + token, 0o600, none},
		{"of standard base64", strings.Repeat("+/", 21) + "8", 0o600, none},
		{"with bits to spare", token[:42] + "9", 0o600, none},
		{"that its group may read", token, 0o640, "DIR/admin.token: mode 0640 opens the token to other users; remove it to have a new one made, or chmod 600 DIR/admin.token"},
		{"that all may read", token, 0o604, "DIR/admin.token: mode 0604 opens the token to other users; remove it to have a new one made, or chmod 600 DIR/admin.token"},
		{"that all may write", token, 0o602, "DIR/admin.token: mode 0602 opens the token to other users; remove it to have a new one made, or chmod 600 DIR/admin.token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "admin.token")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil { // whatever the umask
				t.Fatal(err)
			}
			got, err := Token(dir)
			if tt.want != "" {
				wantTokenError(t, err, dir, tt.want)
			} else if err != nil || got != token {
				t.Errorf("token %q (%v), want %q", got, err, token)
			}
			if b, err := os.ReadFile(path); err != nil || string(b) != tt.content {
				t.Errorf("the file was changed to %q (%v)", b, err)
			}
		})
	}
}

func TestTokenReportsWhatTheDiskSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "state"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Token(filepath.Join(dir, "state"))
	wantTokenError(t, err, dir, "open DIR/state/admin.token: not a directory")
}

func wantTokenError(t *testing.T, err error, dir, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != "open admin token: "+want {
		t.Errorf("error %q, want %q", got, "open admin token: "+want)
	}
}

func TestReadingATokenMakesNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if token, err := ReadToken(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read from an empty directory: %q, %v; want fs.ErrNotExist", token, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v in the directory (%v), want nothing", entries, err)
	}
	made, err := Token(dir)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ReadToken(dir); err != nil || read != made {
		t.Errorf("read %q (%v), want the token that was made", read, err)
	}
}
