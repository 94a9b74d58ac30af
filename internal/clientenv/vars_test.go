package clientenv

import (
	"slices"
	"strings"
	"testing"
)

// value returns a variable, which has to be there once.
func value(t *testing.T, vars []Var, name string) string {
	t.Helper()
	var found []string
	for _, v := range vars {
		if v.Name == name {
			found = append(found, v.Value)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s is set %d times, want once", name, len(found))
	}
	return found[0]
}

func TestMergeReplacesWhatIsThere(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "NO_PROXY=a", "X=1=2", "NO_PROXY=b", "NO_PROXY_X=c", "ODD"}
	got := Merge(environ, []Var{{"NO_PROXY", "d"}, {"NEW", ""}})
	want := []string{"PATH=/bin", "X=1=2", "NO_PROXY_X=c", "ODD", "NO_PROXY=d", "NEW="}
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
	if environ[1] != "NO_PROXY=a" {
		t.Error("the caller's own environment was changed")
	}
}

func TestVariablesOfACallersOwnAreKept(t *testing.T) {
	t.Parallel()
	const javaOurs = "-Dhttp.proxyHost=::1 -Dhttp.proxyPort=8080 -Dhttps.proxyHost=::1 -Dhttps.proxyPort=8080 -Dhttp.nonProxyHosts= " +
		"-Djdk.http.auth.tunneling.disabledSchemes= -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStore=/s/b.p12"
	for _, tt := range []struct {
		name, variable string
		environ        map[string]string
		want           string // "": not set
	}{
		{"a JVM is given its options", "JAVA_TOOL_OPTIONS", nil, javaOurs},
		{"after the caller's", "JAVA_TOOL_OPTIONS", map[string]string{"JAVA_TOOL_OPTIONS": "-Xmx1g"}, "-Xmx1g " + javaOurs},
		{"and once, where they are there already", "JAVA_TOOL_OPTIONS", map[string]string{"JAVA_TOOL_OPTIONS": "-Xmx1g " + javaOurs}, "-Xmx1g " + javaOurs},
		{"PHP reads its own directory first", "PHP_INI_SCAN_DIR", nil, ":/s/b.php.d"},
		{"or the caller's", "PHP_INI_SCAN_DIR", map[string]string{"PHP_INI_SCAN_DIR": "/a:/b"}, "/a:/b:/s/b.php.d"},
		{"and ours once", "PHP_INI_SCAN_DIR", map[string]string{"PHP_INI_SCAN_DIR": ":/s/b.php.d"}, ":/s/b.php.d"},
		{"wget is told where the user has no settings", "WGETRC", map[string]string{"HOME": "/nowhere"}, "/s/b.wgetrc"},
		{"and again", "WGETRC", map[string]string{"WGETRC": "/s/b.wgetrc"}, "/s/b.wgetrc"},
		{"but not in place of the user's", "WGETRC", map[string]string{"WGETRC": "/etc/mine"}, ""},
		{"NO_PROXY is the admin API alone", "NO_PROXY", map[string]string{"NO_PROXY": "localhost,.corp"}, "127.0.0.1:8081,localhost:8081"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := settings{
				proxy: proxyURL{addr: "[::1]:8080", user: "run", password: "secret"}, admin: "127.0.0.1:8081",
				bundle: "/s/b.pem", java: "/s/b.p12", wgetrc: "/s/b.wgetrc", phpDir: "/s/b.php.d", lookup: env(tt.environ),
			}
			vars := s.vars()
			if tt.want == "" {
				if slices.ContainsFunc(vars, func(v Var) bool { return v.Name == tt.variable }) {
					t.Errorf("%s is set", tt.variable)
				}
				return
			}
			if got := value(t, vars, tt.variable); got != tt.want {
				t.Errorf("%s=%s\nwant %s", tt.variable, got, tt.want)
			}
		})
	}
}

func TestAUsersWgetrcIsKept(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write(t, home+"/.wgetrc", "quiet = on\n")
	s := settings{wgetrc: "/s/b.wgetrc", lookup: env(map[string]string{"HOME": home})}
	if !s.ownWgetrc() {
		t.Error("WGETRC would take the place of ~/.wgetrc")
	}
}

func TestEachVariableIsSetOnce(t *testing.T) {
	t.Parallel()
	s := settings{proxy: proxyURL{addr: "h:1", user: "run", password: "secret"}, lookup: env(nil)}
	seen := map[string]bool{}
	for _, v := range s.vars() {
		if seen[v.Name] {
			t.Errorf("%s is set twice", v.Name)
		}
		seen[v.Name] = true
		// A JVM prints its options as it starts.
		if v.Name == "JAVA_TOOL_OPTIONS" && strings.Contains(v.Value, "secret") {
			t.Error("the password is among Java's options")
		}
	}
}

func TestJavaQuotes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/plain/$x;é": "/plain/$x;é",
		"/with space": `"/with space"`,
		`/o'brien`:    `"/o'brien"`,
		`/say "hi"`:   `"/say "'"'"hi"'"'""`,
	} {
		if got := javaQuote(in); got != want {
			t.Errorf("%s is quoted as %s, want %s", in, got, want)
		}
	}
}
