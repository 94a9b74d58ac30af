package cookiefile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

var (
	day  = time.Unix(1893456000, 0).UTC() // 2030-01-01
	host = session.Cookie{Name: "sid", Value: "1", Domain: "shop.test", HostOnly: true, Path: "/"}
)

// but returns host with changes.
func but(change ...func(*session.Cookie)) session.Cookie {
	c := host
	for _, f := range change {
		f(&c)
	}
	return c
}

func ends(c *session.Cookie)      { c.Expires = day }
func secure(c *session.Cookie)    { c.Secure = true }
func httpOnly(c *session.Cookie)  { c.HTTPOnly = true }
func forDomain(c *session.Cookie) { c.HostOnly = false }
func noValue(c *session.Cookie)   { c.Value = "" }
func nameless(c *session.Cookie)  { c.Name = "" }
func lax(c *session.Cookie)       { c.SameSite = session.SameSiteLax }
func none(c *session.Cookie)      { c.SameSite = session.SameSiteNone }
func own(c *session.Cookie)       { c.Partitioned = true }
func high(c *session.Cookie)      { c.Priority = "High" }

// What one format calls an end of life, an empty value or a host another calls
// otherwise: what must not be mixed up.
func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		format     Format
		want       []session.Cookie
	}{
		{"cookies.txt", "# Netscape HTTP Cookie File\n\nshop.test\tFALSE\t/\tFALSE\t1893456000\tsid\t1\n", Netscape, []session.Cookie{but(ends)}},
		{"an end of 0 is a session cookie", "shop.test\tFALSE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{host}},
		{"so is no end, as Python has it", "shop.test\tFALSE\t/\tFALSE\t\tsid\t1", Netscape, []session.Cookie{host}},
		{"and one of -1", "shop.test\tFALSE\t/\tFALSE\t-1\tsid\t1", Netscape, []session.Cookie{host}},
		{"an end with a fraction", "shop.test\tFALSE\t/\tFALSE\t1893456000.5\tsid\t1", Netscape, []session.Cookie{but(func(c *session.Cookie) { c.Expires = day.Add(time.Second / 2) })}},
		{"an end long ago is one", "shop.test\tFALSE\t/\tFALSE\t1\tsid\t1", Netscape, []session.Cookie{but(func(c *session.Cookie) { c.Expires = time.Unix(1, 0).UTC() })}},
		{"HttpOnly is a prefix and no comment", "#HttpOnly_shop.test\tFALSE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{but(httpOnly)}},
		{"with a dot", "#HttpOnly_.shop.test\tTRUE\t/\tTRUE\t0\tsid\t1", Netscape, []session.Cookie{but(httpOnly, secure, forDomain)}},
		{"comments and lines of spaces", "# a\n#b\tFALSE\n  # c\n \t \nshop.test\tFALSE\t/\tFALSE\t0\tsid\t1\n#", Netscape, []session.Cookie{host}},
		{"lines that end in CRLF", "# x\r\n\r\nshop.test\tFALSE\t/\tFALSE\t0\tsid\t1\r\nshop.test\tFALSE\t/\tFALSE\t0\tsid\t\r\n", Netscape, []session.Cookie{host, but(noValue)}},
		{"a byte order mark", "\ufeffshop.test\tFALSE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{host}},
		{"subdomains by the flag", "shop.test\tTRUE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{but(forDomain)}},
		{"subdomains by the dot", ".shop.test\tFALSE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{but(forDomain)}},
		{"an address has none", "127.0.0.1\tTRUE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{but(func(c *session.Cookie) { c.Domain = "127.0.0.1" })}},
		{"flags in lower case", "shop.test\tfalse\t/\ttrue\t0\tsid\t1", Netscape, []session.Cookie{but(secure)}},
		{"an empty value", "shop.test\tFALSE\t/\tFALSE\t0\tsid\t", Netscape, []session.Cookie{but(noValue)}},
		{"an empty value whose tab was cut", "shop.test\tFALSE\t/\tFALSE\t0\tsid", Netscape, []session.Cookie{but(noValue)}},
		{"an empty name", "shop.test\tFALSE\t/\tFALSE\t0\t\t1", Netscape, []session.Cookie{but(nameless)}},
		{"a value with all that other formats escape", "shop.test\tFALSE\t/\tFALSE\t0\tsid\t\"a, b\\\"<%41>=\xff ", Netscape, []session.Cookie{but(func(c *session.Cookie) { c.Value = "\"a, b\\\"<%41>=\xff " })}},
		{"a host in capitals, or of other letters", "BÜCHER.test\tFALSE\t/\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{but(func(c *session.Cookie) { c.Domain = "xn--bcher-kva.test" })}},
		{"a path that is missing", "shop.test\tFALSE\t\tFALSE\t0\tsid\t1", Netscape, []session.Cookie{host}},

		{"storageState", `{"cookies":[{"name":"sid","value":"1","domain":"shop.test","path":"/","expires":-1,"httpOnly":false,"secure":false,"sameSite":"Lax"}],"origins":[]}`, Playwright, []session.Cookie{but(lax)}},
		{"with a partition of its own", `{"cookies":[{"name":"sid","value":"1","domain":".shop.test","path":"/","expires":1893456000,"httpOnly":true,"secure":true,"sameSite":"None","partitionKey":"https://shop.test","_crHasCrossSiteAncestor":false}],"origins":[]}`, Playwright,
			[]session.Cookie{but(ends, httpOnly, secure, none, own, forDomain)}},
		{"written by hand", `{"origins":[],"cookies":[{"name":"sid","value":"1","url":"https://shop.test/login"}]}`, Playwright, []session.Cookie{host}},
		{"Puppeteer's array", `[{"name":"sid","value":"1","domain":".shop.test","path":"/","expires":1893456000.5,"size":4,"httpOnly":true,"secure":true,"session":false,"sameSite":"None","priority":"High","sameParty":false,"sourceScheme":"Secure","partitionKey":{"sourceOrigin":"https://shop.test","hasCrossSiteAncestor":false}}]`, Puppeteer,
			[]session.Cookie{but(httpOnly, secure, none, high, own, forDomain, func(c *session.Cookie) { c.Expires = day.Add(time.Second / 2) })}},
		{"that of page.cookies()", `[{"name":"sid","value":"1","domain":"www.shop.test","path":"/","expires":-1,"size":4,"secure":true,"session":true,"partitionKey":"https://shop.test"}]`, Puppeteer,
			[]session.Cookie{but(secure, own, func(c *session.Cookie) { c.Domain = "www.shop.test" })}},
		{"the protocol's answer", `{"id":1,"result":{"cookies":[{"name":"sid","value":"1","domain":"shop.test","path":"/","expires":-1,"session":true,"priority":"Medium"}]}}`, CDP, []session.Cookie{host}},
		{"its result alone", `{"cookies":[{"name":"sid","value":"1","domain":"shop.test","path":"/","expires":-1,"partitionKey":{"topLevelSite":"https://shop.test","hasCrossSiteAncestor":false},"secure":true}]}`, CDP, []session.Cookie{but(secure, own)}},
		{"an end of 0", `[{"name":"sid","value":"1","domain":"shop.test","path":"/","expires":0}]`, CDP, []session.Cookie{host}},
		{"a session cookie that has an end", `[{"name":"sid","value":"1","domain":"shop.test","path":"/","expires":1893456000,"session":true}]`, CDP, []session.Cookie{host}},
		{"an end that is null", `[{"name":"sid","value":"1","domain":"shop.test","path":"/","hostOnly":true,"expirationDate":null}]`, Editor, []session.Cookie{host}},
		{"an end as text", `[{"name":"sid","value":"1","domain":"shop.test","hostOnly":true,"expirationDate":"1893456000"}]`, Editor, []session.Cookie{but(ends)}},
		{"Cookie-Editor", `[{"domain":"shop.test","expirationDate":1893456000,"hostOnly":true,"httpOnly":true,"name":"sid","path":"/","sameSite":null,"secure":true,"session":false,"storeId":null,"value":"1"}]`, Editor, []session.Cookie{but(ends, httpOnly, secure)}},
		{"EditThisCookie", `[{"domain":".shop.test","hostOnly":false,"httpOnly":false,"name":"sid","path":"/","sameSite":"no_restriction","secure":true,"session":true,"storeId":"0","value":"1","id":1}]`, Editor, []session.Cookie{but(secure, none, forDomain)}},
		{"hostOnly, whatever the dot says", `[{"domain":"shop.test","hostOnly":false,"name":"sid","value":"1"}]`, Editor, []session.Cookie{but(forDomain)}},
		{"an unspecified SameSite, in an extension's partition that is none", `[{"domain":"shop.test","hostOnly":true,"name":"sid","value":"1","sameSite":"unspecified","partitionKey":{"topLevelSite":""}}]`, Editor, []session.Cookie{host}},
		{"Selenium", `[{"domain":"shop.test","expiry":1893456000,"httpOnly":true,"name":"sid","path":"/","sameSite":"Lax","secure":true,"value":"1"}]`, Selenium, []session.Cookie{but(ends, httpOnly, secure, lax)}},
		{"geckodriver's SameSite of a cookie without", `[{"domain":"shop.test","name":"sid","path":"/","sameSite":"None","secure":false,"value":"1"}]`, Selenium, []session.Cookie{host}},
		{"a value that was left out", `[{"domain":"shop.test","name":"sid","path":"/"}]`, Selenium, []session.Cookie{but(noValue)}},
		{"an empty name", `[{"domain":"shop.test","name":"","value":"1"}]`, Selenium, []session.Cookie{but(nameless)}},
		{"no cookies", ` [ ] `, CDP, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(tt.text), "")
			if err != nil {
				t.Fatal(err)
			}
			if f.Format != tt.format || !slices.Equal(f.Cookies, tt.want) || len(f.Remarks) > 0 {
				t.Errorf("%s, %+v, remarks %q; want %s, %+v", f.Format, f.Cookies, f.Remarks, tt.format, tt.want)
			}
		})
	}
}

func TestReadRemarks(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		left             int
	}{
		{"a frame's cookie in a foreign page", `[{"name":"a","domain":"shop.test","partitionKey":{"topLevelSite":"https://evil.test","hasCrossSiteAncestor":true}},{"name":"b","domain":"shop.test"}]`,
			"Left out, since they belong to the pages of another site (partitionKey): a.", 1},
		{"its own site's frame in a foreign one", `[{"name":"a","domain":"shop.test","partitionKey":{"sourceOrigin":"https://shop.test","hasCrossSiteAncestor":true}}]`,
			"Left out, since they belong to the pages of another site (partitionKey): a.", 0},
		{"local storage", `{"cookies":[],"origins":[{"origin":"https://shop.test","localStorage":[{"name":"token","value":"THEVALUE"},{"name":"b","value":""}]},{"origin":"https://b.test","localStorage":[]}]}`,
			"Local storage is no cookie and stays in the file, since a proxy can't bring it to clients: 2 items of 1 origin.", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(tt.text), "")
			if err != nil || len(f.Remarks) != 1 || f.Remarks[0] != tt.want || len(f.Cookies) != tt.left {
				t.Errorf("%+v, %v; want %q and %d cookies", f, err, tt.want, tt.left)
			}
		})
	}
}

// A fault has its place, and what is there is not shown.
func TestReadFaults(t *testing.T) {
	const line = "shop.test\tFALSE\t/\tFALSE\t0\tsid\tTHEVALUE\n"
	for _, tt := range []struct {
		name, text string
		format     Format
		want       string
	}{
		{"nothing", "", "", "1:1: the file is empty"},
		{"blank lines", " \n\t\n", "", "1:1: the file is empty"},
		{"UTF-16", "\xff\xfe[\x00]\x00", "", "1:1: this is UTF-16"},
		{"spaces in the place of tabs", "# Netscape HTTP Cookie File\n" + line + "shop.test  FALSE  /  FALSE  0  sid  THEVALUE", "", "3:1: fields are separated by one tab each, and these by spaces"},
		{"a text", "hello THEVALUE", "", "1:1: this is no line of cookies.txt"},
		{"a Cookie header", "Cookie: sid=THEVALUE; lang=en", "", "1:1: this is a Cookie header"},
		{"a Cookie header's value", "sid=THEVALUE", "", "1:1: this is a Cookie header"},
		{"too few fields", line + "shop.test\tFALSE\t/\tTHEVALUE", "", "2:1: 4 fields, and not 7"},
		{"a tab in the value", "shop.test\tFALSE\t/\tFALSE\t0\tsid\tTHEVALUE\t2", "", "1:1: 8 fields, and not 7"},
		{"a flag that is none", "shop.test\tTHEVALUE\t/\tFALSE\t0\tsid\t1", "", "1:11: whether subdomains count is TRUE or FALSE"},
		{"another", line + "#HttpOnly_shop.test\tFALSE\t/\t1\t0\tsid\t1", "", "2:29: whether the cookie is Secure is TRUE or FALSE"},
		{"an end that is none", "shop.test\tFALSE\t/\tFALSE\tTHEVALUE\tsid\t1", "", "1:25: the end of life is a number"},
		{"an end that is no number", "shop.test\tFALSE\t/\tFALSE\tNaN\tsid\t1", "", "1:25: the end of life is a number"},
		{"no domain", "\tFALSE\t/\tFALSE\t0\tsid\t1", "", "1:1: the domain is missing"},
		{"an endless line", line + strings.Repeat("a", maxLine+1), "", "2:32768: the line is longer"},

		{"half a file", "[\n {\"name\": \"THEVALUE", "", "2:20: the file ends in the middle of its JSON"},
		{"a file that ends between two cookies", "[\n {\"name\": \"a\", \"domain\": \"b\"},\n", "", "3:1: the file ends in the middle of its JSON"},
		{"no JSON", "[\n  {\"name\": 'THEVALUE'}]", "", "2:12: this is no JSON: invalid character '\\''"},
		{"no JSON in the second", "[\n  {\"name\": \"a\", \"domain\": \"b\"},\n  {\"name\"; \"THEVALUE\"}]", "", "3:10: this is no JSON: invalid character ';'"},
		{"a comma is missing", "[\n{\"name\": \"a\", \"domain\": \"b\"}\n {\"name\": \"a\"}]", "", "3:2: this is no JSON: expected comma after array element"},
		{"a colon is missing", "{\n\"cookies\" [] }", "", "2:11: this is no JSON: invalid character '[' after object key"},
		{"a name that is a number", "[{\"name\": \"a\", \"domain\": \"b\"},\n{\"name\": 1}]", "", "2:10: name: a number stands where a string belongs"},
		{"a cookie without a name", "[\n  {\"value\": \"THEVALUE\", \"domain\": \"shop.test\"}]", "", "2:3: the cookie has no name"},
		{"a cookie of nowhere", "[\n  {\"name\": \"THEVALUE\"}]", "", "2:3: the cookie has neither a domain nor a url"},
		{"a URL that is none", "[\n  {\"name\": \"a\", \"url\": \"THEVALUE\"}]", "", "2:3: the cookie's url is not one in full"},
		{"an end that is no time", "[\n  {\"name\": \"a\", \"domain\": \"b\", \"expires\": \"THEVALUE\"}]", "", "2:3: the cookie's end of life"},
		{"a partition that is none", "[\n  {\"name\": \"a\", \"domain\": \"b\", \"partitionKey\": [\"THEVALUE\"]}]", "", "2:3: the cookie's partitionKey"},
		{"cookies that are no list", "{\"cookies\":\n \"THEVALUE\"}", "", "2:12: this is to be an array"},
		{"another object", "{\"a\": 1}", "", "1:1: no cookie file: an object has"},
		{"more behind it", "[]\n[]", "", "2:2: something stands behind the file's end"},
		{"bytes that are no UTF-8", "[{\"name\": \"a\", \"domain\": \"b\",\n \"value\": \"\xff\"}]", "", "2:12: this is not UTF-8"},
		{"a character cut short", "[{\"name\": \"a\",\n \"value\": \"\xc3\"}]", "", "2:12: this is not UTF-8"},

		{"JSON for a cookies.txt", "[]", Netscape, "1:1: this is JSON"},
		{"a cookies.txt for JSON", line, Playwright, "1:1: this is no JSON, as playwright is"},
		{"cookies for a HAR", "[]", HAR, "1:1: this is no HAR"},
		{"a HAR for cookies", `{"log":{"entries":[]}}`, CDP, "1:1: this is a HAR, and no cdp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(tt.text), tt.format)
			if _, ok := errors.AsType[*Error](err); !ok || f != nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "THEVALUE") {
				t.Errorf("%v, %v; want %s", f, err, tt.want)
			}
		})
	}
}

// full are cookies that between them have all that a jar can hold.
func full() []session.Cookie {
	return []session.Cookie{
		host, but(ends), but(secure, httpOnly, lax), but(forDomain, secure, none, own, high),
		but(noValue), but(nameless), but(ends, func(c *session.Cookie) { c.Path = "/cart"; c.SameSite = session.SameSiteStrict }),
		but(func(c *session.Cookie) { c.Value = `"{\"a\":1, <b>}"=é` }),
		but(func(c *session.Cookie) { c.Domain = "127.0.0.1" }), but(func(c *session.Cookie) { c.Domain = "::1" }),
		but(func(c *session.Cookie) { c.Domain = "xn--bcher-kva.test" }),
	}
}

// What is written comes back, but for what the remarks name.
func TestRoundTrip(t *testing.T) {
	losing := map[Format]func(c *session.Cookie){
		Netscape:   func(c *session.Cookie) { c.SameSite, c.Partitioned, c.Priority = 0, false, "" },
		Playwright: func(c *session.Cookie) { c.Priority = "" },
		Puppeteer:  func(*session.Cookie) {},
		CDP:        func(*session.Cookie) {},
		Editor:     func(c *session.Cookie) { c.Priority = "" },
		Selenium:   func(c *session.Cookie) { c.Partitioned, c.Priority = false, "" },
	}
	for _, format := range Formats() {
		if format == HAR {
			continue
		}
		t.Run(string(format), func(t *testing.T) {
			var b bytes.Buffer
			remarks, err := Write(&b, format, full())
			if err != nil {
				t.Fatal(err)
			}
			f, err := Read(bytes.NewReader(b.Bytes()), format)
			if err != nil {
				t.Fatalf("%v\n%s", err, &b)
			}
			want := full()
			for i := range want {
				losing[format](&want[i])
			}
			if !slices.Equal(f.Cookies, want) {
				t.Errorf("%s\nread as\n%+v\nwant\n%+v", &b, f.Cookies, want)
			}
			all := strings.Join(remarks, "\n")
			for what, lost := range map[string]bool{
				"SameSite": format == Netscape, "Partitioned": format == Netscape || format == Selenium,
				"Priority": format != Puppeteer && format != CDP,
			} {
				if strings.Contains(all, "holds no "+what) != lost {
					t.Errorf("remarks %q; %s lost: %t", remarks, what, lost)
				}
			}
		})
	}
}

// Bytes that are no UTF-8 fit into cookies.txt alone. The others say so.
func TestRawBytes(t *testing.T) {
	raw := []session.Cookie{but(func(c *session.Cookie) { c.Value = "\xff\x80" }), but(func(c *session.Cookie) { c.Name = "plain" })}
	for _, format := range Formats() {
		if format == HAR {
			continue
		}
		var b bytes.Buffer
		remarks, err := Write(&b, format, raw)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(&b, format)
		if err != nil {
			t.Fatal(err)
		}
		if format == Netscape {
			if !slices.Equal(f.Cookies, raw) || len(remarks) > 0 {
				t.Errorf("%s: %+v, %q", format, f.Cookies, remarks)
			}
			continue
		}
		if !slices.Equal(f.Cookies, raw[1:]) || !slices.Equal(remarks, []string{"JSON holds UTF-8 alone; left out: sid."}) {
			t.Errorf("%s: %+v, %q", format, f.Cookies, remarks)
		}
	}
}

func TestToolsDialects(t *testing.T) {
	cookies := []session.Cookie{but(httpOnly), but(ends, nameless), but(func(c *session.Cookie) { c.Domain = "intranet" }), but(func(c *session.Cookie) { c.Name = "raw"; c.Value = "\xff" })}
	for _, tt := range []struct{ tool, want, remarks string }{
		{"curl", "#HttpOnly_shop.test\tFALSE\t/\tFALSE\t0\tsid\t1\nintranet\tFALSE\t/\tFALSE\t0\tsid\t1\nshop.test\tFALSE\t/\tFALSE\t0\traw\t\xff\n",
			"curl's cookies.txt holds no cookie without a name; left out: (nameless)."},
		{"wget", "shop.test\tFALSE\t/\tFALSE\t0\tsid\t1\nintranet\tFALSE\t/\tFALSE\t0\tsid\t1\nshop.test\tFALSE\t/\tFALSE\t0\traw\t\xff\n",
			"Wget's cookies.txt holds no HttpOnly: sid.|Wget's cookies.txt holds no cookie without a name; left out: (nameless)."},
		{"yt-dlp", "#HttpOnly_shop.test\tFALSE\t/\tFALSE\t0\tsid\t1\nshop.test\tFALSE\t/\tFALSE\t1893456000\t\t1\nintranet.local\tFALSE\t/\tFALSE\t0\tsid\t1\n",
			"yt-dlp's cookies.txt holds UTF-8 alone; left out: raw."},
		{"requests", "#HttpOnly_shop.test\tFALSE\t/\tFALSE\t\tsid\t1\nshop.test\tFALSE\t/\tFALSE\t1893456000\t\t1\nintranet.local\tFALSE\t/\tFALSE\t\tsid\t1\n",
			"Python's cookies.txt holds UTF-8 alone; left out: raw."},
	} {
		tool, ok := ToolNamed(tt.tool)
		if !ok {
			t.Fatal(tt.tool)
		}
		var b bytes.Buffer
		remarks, err := tool.Write(&b, cookies)
		if err != nil || b.String() != netscapeHeader+tt.want || strings.Join(remarks, "|") != tt.remarks {
			t.Errorf("%s: %v\n%q\n%q\nwant\n%q\n%q", tt.tool, err, b.String(), remarks, netscapeHeader+tt.want, tt.remarks)
		}
	}
}

func TestUse(t *testing.T) {
	for tool, want := range map[string]string{
		"curl":       `curl -b '/tmp/it'\''s here.txt' https://shop.test/`,
		"playwright": `const context = await browser.newContext({ storageState: "/tmp/it's here.txt" });`,
	} {
		tool, _ := ToolNamed(tool)
		if got := tool.Use("/tmp/it's here.txt", "shop.test"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := Tools[3].Use("jar.txt", "::1"); got != "curl -b jar.txt https://[::1]/" {
		t.Error(got)
	}
}

func TestRemarksAreShort(t *testing.T) {
	var cookies []session.Cookie
	for i := range 8 {
		cookies = append(cookies, but(secure, own, func(c *session.Cookie) { c.Name = fmt.Sprintf("c%d\x1b[2J", 8-i) }))
	}
	remarks, err := Write(new(bytes.Buffer), Selenium, cookies)
	if want := `selenium holds no Partitioned: "c1\x1b[2J", "c2\x1b[2J", "c3\x1b[2J", "c4\x1b[2J", "c5\x1b[2J" and 3 more.`; err != nil || !slices.Equal(remarks, []string{want}) {
		t.Errorf("%q, %v; want %s", remarks, err, want)
	}
}

func TestAFileHasBounds(t *testing.T) {
	line := "shop.test\tFALSE\t/\tFALSE\t0\tsid\t1\n"
	if _, err := Read(strings.NewReader(strings.Repeat(line, maxCookies+1)), ""); err == nil || err.Error() != "100001:1: "+tooMany {
		t.Errorf("cookies.txt: %v", err)
	}
	list := "[" + strings.TrimSuffix(strings.Repeat("{\"name\":\"a\",\"domain\":\"b\"},\n", maxCookies+1), ",\n") + "]"
	if _, err := Read(strings.NewReader(list), ""); err == nil || err.Error() != "100001:1: "+tooMany {
		t.Errorf("JSON: %v", err)
	}
}
