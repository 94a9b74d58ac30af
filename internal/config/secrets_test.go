package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// secretive has a secret wherever one may stand.
const secretive = `
store:
  url: redis+sentinel://proxy:hunter2@10.0.0.4:26379/shop
  password: hunter2
  sentinel_password: hunter2
  encryption: [hunter2]
captchaai: {key: hunter2, url: "https://hunter2@solver.test/?key=hunter2"}
clients:
  - {name: crawler, password: hunter2}
  - name: browser
    password: "hunter2"  # hunter2 since May
  - name: block
    password: |-
      hunter2
      hunter2
sites:
  - name: shop
    hosts: [shop.test]
    headers: {X-Secret: hunter2}
    login:
      accounts: [{id: default, user: ana, password: 'hunter2'}]
upstreams:
  eu: {proxies: ["http://ana:hunter2@10.0.0.1:3128"]}
auth:
  operators:
    - name: ana
      password: hunter2
`

// secretiveURL has its secret in a URL alone.
const secretiveURL = `
store: redis://proxy:hunter2@10.0.0.4:6379/0
sites: [{name: shop, hosts: [shop.test]}]
`

// Whatever slip is made anywhere in a file, no fault shows a secret.
func TestNoSlipShowsASecret(t *testing.T) {
	t.Parallel()
	judge := func(text string) {
		_, err := load(Source{File: "shop.yaml", LookupEnv: lookup(nil)}, []byte(text))
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s\nis answered by\n%v", text, err)
		}
	}
	for _, text := range []string{secretive, secretiveURL} {
		judge(text)
		for i := range text {
			judge(text[:i] + text[i+1:]) // a character left out
			if i > 0 && isLetter(text[i-1]) && isLetter(text[i]) {
				continue // within a word slips are alike
			}
			for _, slip := range []string{" ", "\n", ":", "{", "]", ",", "\"", "#", "&", "|", "${"} {
				judge(text[:i] + slip + text[i:])
			}
		}
		lines := strings.SplitAfter(text, "\n")
		for i := range lines {
			judge(strings.Join(lines[:i], "") + strings.Join(lines[i+1:], ""))      // a line left out
			judge(strings.Join(lines[:i+1], "") + strings.Join(lines[i:], ""))      // a line twice
			judge(strings.Join(lines[:i], "") + "  " + strings.Join(lines[i:], "")) // a line indented
		}
	}
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }

// FuzzLoad: any bytes are a configuration or faults with places.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(secretive))
	for _, text := range []string{
		"", "a", "- a", "{}", "a: &a *a", "sites: &a [*a]", "<<: {}", "? a\n: b", "---\n---\n", "a: !!binary x", "a: |\n  b", "listen: [[]]",
		"sites: [{name: a, hosts: [a.test], headers: {A: b}, origin: {resolve: {a.test: \"b:1\"}}}]",
		"clients: [{name: a, password: ${A}}]", "listen: [{addr: 127.0.0.1:1, from: [10.0.0.0/8]}]",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := load(Source{File: filepath.Join(dir, "shop.yaml"), LookupEnv: lookup(nil)}, text)
		if err == nil {
			if c == nil {
				t.Fatal("neither a configuration nor faults")
			}
			return
		}
		faults, ok := errors.AsType[Faults](err)
		if !ok || len(faults) == 0 {
			t.Fatalf("%v is no list of faults", err)
		}
		for _, fault := range faults {
			if fault.Where == "" || fault.Message == "" || fault.Remedy == "" || fault.Caret < 0 {
				t.Errorf("%#v", fault)
			}
		}
	})
}
