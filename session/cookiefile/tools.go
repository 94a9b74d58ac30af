package cookiefile

import (
	"io"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// Tool is a program that is given a login.
type Tool struct {
	Name   string
	Format Format

	dialect dialect // of [Netscape]
	loses   func(c *session.Cookie) string
	use     string // the line that loads FILE, which it has as shell or source code quotes it
	quote   func(string) string
}

// Tools are the programs that a file is made for, by name.
var Tools = []Tool{
	{Name: "playwright", Format: Playwright, quote: strconv.Quote,
		use: `const context = await browser.newContext({ storageState: FILE });`},
	{Name: "puppeteer", Format: Puppeteer, quote: strconv.Quote,
		use: `await browserContext.setCookie(...JSON.parse(fs.readFileSync(FILE, "utf8")));`},
	// Not add_cookie, which takes cookies for the host of the open page alone,
	// and a domain for one of subdomains, too.
	{Name: "selenium", Format: CDP, quote: strconv.Quote,
		use: `driver.execute_cdp_cmd("Network.setCookies", {"cookies": json.load(open(FILE))})`},
	{Name: "curl", Format: Netscape, dialect: forCurl, quote: quoteShell, use: `curl -b FILE https://HOST/`},
	{Name: "wget", Format: Netscape, dialect: forWget, quote: quoteShell, use: `wget --load-cookies FILE https://HOST/`},
	{Name: "yt-dlp", Format: Netscape, dialect: forYtDlp, quote: quoteShell, use: `yt-dlp --cookies FILE https://HOST/`},
	{Name: "requests", Format: Netscape, dialect: forPython, quote: strconv.Quote,
		use: "jar = http.cookiejar.MozillaCookieJar(FILE); jar.load(ignore_discard=True)\n" +
			`requests.get("https://HOST/", cookies=jar)`},
	{Name: "scrapy", Format: Selenium, quote: strconv.Quote,
		loses: func(c *session.Cookie) string {
			if c.HostOnly {
				return "Scrapy sends cookies of one host to its subdomains, too"
			}
			return ""
		},
		use: `scrapy.Request("https://HOST/", cookies=json.load(open(FILE)))`},
}

// ToolNamed finds a tool.
func ToolNamed(name string) (Tool, bool) {
	for _, t := range Tools {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// Use is the code, or the command, that gives the tool the file to visit host,
// which is canonical.
func (t Tool) Use(file, host string) string {
	host = inURL(host)
	return strings.NewReplacer("FILE", t.quote(file), "HOST", host).Replace(t.use)
}

// Write writes cookies as the tool reads them.
func (t Tool) Write(w io.Writer, cookies []session.Cookie) (remarks []string, err error) {
	if t.Format == Netscape {
		return writeNetscape(w, t.dialect, cookies)
	}
	remarks, err = Write(w, t.Format, cookies)
	if t.loses != nil {
		var lost losses
		for i := range cookies {
			if kind := t.loses(&cookies[i]); kind != "" {
				lost.add(kind, cookies[i].Name)
			}
		}
		remarks = append(remarks, lost.remarks()...)
	}
	return remarks, err
}

// quoteShell is s as a shell reads it.
func quoteShell(s string) string {
	safe := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/._-+@%,:=", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
