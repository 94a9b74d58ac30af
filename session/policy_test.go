package session

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	all := NewPolicy([]string{"*"}, []string{"app_csrf", "tok*n", "*_nonce"}, false)
	some := NewPolicy([]string{"sid", "app_*"}, nil, false)
	for _, tt := range []struct {
		name            string
		p               *Policy
		cookie          string
		shared, private bool
	}{
		{"any name is shared", all, "sid", true, false},
		{"a nameless cookie is shared", all, "", true, false},
		{"a built-in name is private", all, "csrftoken", false, true},
		{"with its case", all, "CsrfToken", true, false},
		{"ASP.NET's with a path", all, "__RequestVerificationToken_L3Nob3A1", false, true},
		{"ASP.NET Core's", all, ".AspNetCore.Antiforgery.9TtSrW0hzOs", false, true},
		{"Symfony's of one form", all, "__Host-csrf-token_abcdef", false, true},
		{"a session of ASP.NET Core is not", all, ".AspNetCore.Session", true, false},
		{"WordPress's test cookie is not", all, "wordpress_test_cookie", true, false},
		{"the site's own", all, "app_csrf", false, true},
		{"by a star in the middle", all, "token", false, true},
		{"which may be nothing", all, "tokn", false, true},
		{"but not the rest", all, "toke", true, false},
		{"by an ending", all, "form_nonce", false, true},
		{"only what share names", some, "sid", true, false},
		{"by its beginning", some, "app_user", true, false},
		{"and nothing else", some, "tracking", false, false},
		{"nor a nameless cookie", some, "", false, false},
		{"private is still private", some, "_csrf", false, true},
	} {
		if got := tt.p.Shared(tt.cookie); got != tt.shared {
			t.Errorf("%s: Shared(%q) = %t", tt.name, tt.cookie, got)
		}
		if got := tt.p.Private(tt.cookie); got != tt.private {
			t.Errorf("%s: Private(%q) = %t", tt.name, tt.cookie, got)
		}
	}
}

func TestMatchGlob(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "abc", true}, {"a*", "a", true},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*c", "abbc", true}, {"a*c", "abcb", false},
		{"*ab*", "xaaby", true}, {"a?", "ab", false}, {"a?", "a?", true},
		{"a*b*c", "aXbYbZc", true}, {"a*b*c", "aXcYb", false},
		{"[a]", "[a]", true}, {"[a]", "a", false},
	} {
		if got := Glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %t", tt.pattern, tt.s, got)
		}
	}
}

// The document is what operators read; each built-in name is in it, and no other.
func TestPrivateCookiesAreDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/private-cookies.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(doc, -1) {
		documented = append(documented, string(m[1]))
	}
	built := slices.Clone(builtinPrivate)
	slices.Sort(documented)
	slices.Sort(built)
	if !slices.Equal(documented, built) {
		t.Errorf("documented %q, built in %q", documented, built)
	}
}
