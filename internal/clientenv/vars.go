// Package clientenv knows how the programs of others are told of a proxy and
// of the authority it signs with: by which environment variables, and in which
// form each shell takes them.
//
// It finds the running proxy and writes the files that the variables name.
// Who runs the programs is its caller's part.
package clientenv

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// Var is one environment variable.
type Var struct{ Name, Value string }

// Merge returns environ, as of [os.Environ], with vars in place of what has
// their names.
func Merge(environ []string, vars []Var) []string {
	merged := slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.ContainsFunc(vars, func(v Var) bool { return v.Name == name })
	})
	for _, v := range vars {
		merged = append(merged, v.Name+"="+v.Value)
	}
	return merged
}

// settings are what the variables say.
type settings struct {
	proxy  proxyURL
	admin  string // host:port that is reached without the proxy
	bundle string // paths without a line break, see [Source.Vars]
	java   string
	wgetrc string
	phpDir string
	lookup func(string) (string, bool)
}

// vars is the table of who reads what. Each row was tried with a program that
// it names, but for those with a link, which is its documentation. Variables
// that name roots replace the program's own, unless the row says "adds".
func (s settings) vars() []Var {
	proxy := s.proxy.String()
	all := []Var{
		// curl reads only the lower case of http_proxy, .NET and others only
		// the upper. Ruby's Net::HTTP takes http_proxy for https too.
		{"HTTP_PROXY", proxy},
		{"http_proxy", proxy},
		{"HTTPS_PROXY", proxy},
		{"https_proxy", proxy},
		{"NO_PROXY", noProxy(s.admin)},
		{"no_proxy", noProxy(s.admin)},
		// These read the four above when told to: Node from 22.21 and 24.5 on,
		// and Perl's LWP.
		{"NODE_USE_ENV_PROXY", "1"},
		{"PERL_LWP_ENV_PROXY", "1"},
		// npm and pnpm put their configuration files over the four, and these
		// over their files. Yarn 2 and later read nothing else (and refuse to
		// start for a YARN_ variable that their version does not know).
		{"npm_config_proxy", proxy},
		{"npm_config_https_proxy", proxy},
		{"YARN_HTTP_PROXY", proxy},
		{"YARN_HTTPS_PROXY", proxy},

		// OpenSSL and whoever uses its defaults (Python's ssl, Ruby, Perl's
		// HTTP::Tiny, PHP's streams), curl, Go, Rust's native-certs, .NET.
		{"SSL_CERT_FILE", s.bundle},
		// OpenSSL and GnuTLS of nixpkgs, before SSL_CERT_FILE:
		// https://nix.dev/manual/nix/latest/command-ref/env-common
		{"NIX_SSL_CERT_FILE", s.bundle},
		{"CURL_CA_BUNDLE", s.bundle}, // the tool, not the library
		{"GIT_SSL_CAINFO", s.bundle},
		{"CARGO_HTTP_CAINFO", s.bundle},
		{"REQUESTS_CA_BUNDLE", s.bundle}, // Python's requests, which brings its own roots
		{"PIP_CERT", s.bundle},
		{"HTTPLIB2_CA_CERTS", s.bundle},   // https://github.com/httplib2/httplib2/blob/master/python3/httplib2/certs.py
		{"AWS_CA_BUNDLE", s.bundle},       // https://docs.aws.amazon.com/sdkref/latest/guide/feature-gen-config.html
		{"NODE_EXTRA_CA_CERTS", s.bundle}, // Node, Bun, Deno from 2.8 on; adds
		{"DENO_CERT", s.bundle},           // adds
		{"npm_config_cafile", s.bundle},   // over a cafile in npm's files
		{"PERL_LWP_SSL_CA_FILE", s.bundle},
		// https://github.com/grpc/grpc/blob/master/doc/environment_variables.md
		{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", s.bundle},

		{"PHP_INI_SCAN_DIR", s.phpScanDir()},
		{"JAVA_TOOL_OPTIONS", s.javaOptions()},
	}
	if !s.ownWgetrc() {
		all = append(all, Var{"WGETRC", s.wgetrc})
	}
	return all
}

// noProxy names the admin API, which refuses to be reached through the proxy.
// Not all programs read ports here; those that don't take the proxy, and its
// refusal. Without the port they would leave out all of loopback.
func noProxy(admin string) string {
	admin = strings.TrimPrefix(admin, "https://")
	_, port, err := net.SplitHostPort(admin)
	if err != nil {
		return admin
	}
	return admin + ",localhost:" + port
}

// phpScanDir adds a directory to those that PHP reads settings from: libcurl in
// PHP takes its roots from there alone. An empty entry is PHP's default
// (https://www.php.net/manual/configuration.file.php).
func (s settings) phpScanDir() string {
	dirs, _ := s.lookup("PHP_INI_SCAN_DIR")
	list := filepath.SplitList(dirs)
	if dirs == "" {
		list = []string{""}
	}
	if slices.Contains(list, s.phpDir) {
		return dirs
	}
	return strings.Join(append(list, s.phpDir), string(filepath.ListSeparator))
}

// ownWgetrc says whether the user has a wgetrc, which WGETRC would replace.
// Wget has no variable for roots: Debian's build, for one, is of GnuTLS, which
// reads no SSL_CERT_FILE.
func (s settings) ownWgetrc() bool {
	if f, ok := s.lookup("WGETRC"); ok && f != "" && f != s.wgetrc {
		return true
	}
	home, _ := s.lookup("HOME")
	return exists(filepath.Join(home, ".wgetrc"))
}

// javaOptions are the properties of a JVM, after those that the caller set:
// the last of two counts. A JVM prints the variable as it starts, so nothing
// secret may be in it. Nor would it help: Java's own clients send no
// http.proxyUser. A program that answers with an Authenticator is let use Basic
// in a tunnel, which Java forbids by default (net.properties of the JDK).
func (s settings) javaOptions() string {
	options := strings.Join([]string{
		"-Dhttp.proxyHost=" + s.proxy.host(), "-Dhttp.proxyPort=" + s.proxy.port(),
		"-Dhttps.proxyHost=" + s.proxy.host(), "-Dhttps.proxyPort=" + s.proxy.port(),
		"-Dhttp.nonProxyHosts=", // for https too; without it loopback is left out
		"-Djdk.http.auth.tunneling.disabledSchemes=",
		"-Djavax.net.ssl.trustStoreType=PKCS12",
		"-Djavax.net.ssl.trustStore=" + javaQuote(s.java),
	}, " ")
	before, _ := s.lookup("JAVA_TOOL_OPTIONS")
	if strings.HasSuffix(before, options) { // the lines of "env" were evaluated here
		return before
	}
	return strings.TrimLeft(before+" "+options, " ")
}

// javaQuote quotes what has spaces or quotes. The JVM knows both quotes, also
// amid an option, and no escapes (hotspot/share/runtime/arguments.cpp,
// parse_options_buffer).
func javaQuote(s string) string {
	if !strings.ContainsAny(s, " \t'\"") {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `"'"'"`) + `"`
}
