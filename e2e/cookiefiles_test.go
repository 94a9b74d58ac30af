package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/session"
)

// kit is a site whose login is many cookies, a proxy that shares them, and a
// plain tunnel by which tools reach the site without that proxy.
type kit struct {
	*instance
	state, home string
	ca          string // of the site, for those who come by the tunnel
	tunnel      string // URL
	client      *http.Client
}

// loginCookies are what a login sets, in the order of /login's answer. %s is
// the session's secret.
var loginCookies = []string{
	"sid=%s; Path=/; Secure; HttpOnly; SameSite=Lax",
	"__Host-id=%s; Path=/; Secure; HttpOnly; SameSite=Strict",
	"long=a%%2Cb; Path=/; Max-Age=86400; Secure",
	"wide=1; Domain=shop.test; Path=/; Max-Age=86400",
	"empty=; Path=/; Max-Age=86400",
	"json={\"a\":[1]}; Path=/; Max-Age=86400",
	"chips=1; Path=/; Secure; SameSite=None; Partitioned; Max-Age=86400",
	"prio=1; Path=/; Priority=High; Max-Age=86400",
	"deep=1; Path=/account; Max-Age=86400",
}

// whole is what a request to /account of a client with all of them says.
const whole = "alice: __Host-id chips deep empty json long prio sid wide"

// site logs in everybody at /login, and tells each other request which cookies
// it brought, by name, and whether they are those of a login.
func site(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		for _, line := range loginCookies {
			if strings.Contains(line, "%s") {
				line = fmt.Sprintf(line, "s3cret")
			} else {
				line = strings.ReplaceAll(line, "%%", "%")
			}
			w.Header().Add("Set-Cookie", line)
		}
		fmt.Fprint(w, "welcome")
		return
	}
	who, names := "nobody", []string{}
	for pair := range strings.SplitSeq(strings.Join(r.Header["Cookie"], "; "), "; ") {
		name, value, _ := strings.Cut(pair, "=")
		names = append(names, name)
		switch want := map[string]string{"long": "a%2Cb", "json": `{"a":[1]}`, "empty": ""}; {
		case name == "sid" && value == "s3cret":
			who = "alice"
		case want[name] != "" && value != want[name]:
			names[len(names)-1] += " spoilt: " + value
		}
	}
	slices.Sort(names)
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprintf(w, "%s: %s", who, strings.Join(names, " "))
}

func newKit(t *testing.T) *kit {
	t.Helper()
	o := newOrigin(t, http.HandlerFunc(site))
	dir := t.TempDir()
	k := &kit{state: filepath.Join(dir, "state"), ca: o.ca, home: trustingHome(t, o.ca), tunnel: newTunnel(t, o.tls)}
	write(t, filepath.Join(k.home, ".wgetrc"), []byte("ca_certificate = "+o.ca+"\n"))
	config := filepath.Join(dir, "sessionproxy.yaml")
	write(t, config, fmt.Appendf(nil, `sites:
  - name: shop
    hosts: [shop.test, "*.shop.test"]
    origin: {ca: %s, resolve: {"www.shop.test:443": %q}}
`, o.ca, o.tls))
	k.instance = start(t, "serve", "--config", config, "--state", k.state)
	k.client = trusting(t, k.instance, k.state)
	t.Cleanup(k.client.CloseIdleConnections)
	return k
}

// newTunnel is a proxy that shares nothing: whatever host a CONNECT names, it
// leads to addr.
func newTunnel(t *testing.T, addr string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || !strings.HasSuffix(r.Host, "shop.test:443") {
			http.Error(w, "tunnels to the shop only", http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", addr)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, buffered)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
	})}
	go func() { _ = server.Serve(ln) }() // until Close
	t.Cleanup(func() { server.Close() })
	return "http://" + ln.Addr().String()
}

// env is that of a tool that reaches the site by the tunnel.
func (k *kit) env() []string {
	return []string{
		"HOME=" + k.home, "PATH=" + os.Getenv("PATH"), "CHROMIUM=" + chromium, "TUNNEL=" + k.tunnel, "CA=" + k.ca,
		"https_proxy=" + k.tunnel, "CURL_CA_BUNDLE=" + k.ca, "REQUESTS_CA_BUNDLE=" + k.ca, "SSL_CERT_FILE=" + k.ca,
	}
}

// run runs a program of a tool in dir, and returns what it prints.
func (k *kit) run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, k.env()
	var stderr buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second // a browser may hold the pipes
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, &stderr)
	}
	return string(out)
}

// cookies runs a cookies command against the proxy.
func (k *kit) cookies(t *testing.T, dir string, args ...string) (stdout, stderr string) {
	t.Helper()
	args = append(append([]string{"cookies"}, args...), "--admin", k.admin, "--state", k.state)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var out, errs buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s%s", args, err, &out, &errs)
	}
	return out.String(), errs.String()
}

// account is what the site says to a client without cookies in a session.
func (k *kit) account(t *testing.T, id, path string) string {
	t.Helper()
	transport := k.client.Transport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	transport.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: k.proxy, User: url.UserPassword("c-session-"+id, "")})
	resp, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Get("https://www.shop.test" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// exported are the cookies of a session by name.
func (k *kit) exported(t *testing.T, id string) map[string]admin.CookieValue {
	t.Helper()
	stdout, _ := k.cookies(t, t.TempDir(), "export", "--session", id, "--json")
	var e admin.CookiesExported
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	byName := map[string]admin.CookieValue{}
	for _, c := range e.Cookies {
		byName[string(c.Name)] = c
	}
	return byName
}

// Each tool logs in without the proxy, and writes a file as it always does.
// What is in it becomes the session of others.
func TestTheFilesOfToolsAreImported(t *testing.T) {
	k := newKit(t)
	scripts, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	node := []string{"node", filepath.Join(scripts, "cookiefiles.mjs")}
	python := []string{"/usr/bin/python3", filepath.Join(scripts, "cookiefiles.py")}
	const page = "https://www.shop.test/login"
	for _, tt := range []struct {
		tool    string
		write   []string // writes "out"
		account string   // what the site says then
		lost    string   // attributes that the tool or its format does not keep
	}{
		{"curl", []string{"curl", "-sS", "-c", "out", page}, whole, "samesite partitioned priority"},
		// Wget takes no cookie for a path that the page is not below.
		{"wget", []string{"wget", "-q", "--save-cookies", "out", "--keep-session-cookies", "-O", "page", page}, strings.Replace(whole, "deep ", "", 1), "samesite partitioned priority httponly"},
		{"playwright", append(node, "playwright"), whole, "priority"},
		{"puppeteer", append(node, "puppeteer"), whole, ""},
		{"puppeteer-page", append(node, "puppeteer-page"), whole, ""},
		{"cdp", append(node, "cdp"), whole, ""},
		{"har", append(node, "har"), whole, ""},
		{"editor", append(node, "editor"), whole, "priority"},
		{"selenium", append(python, "selenium"), whole, "partitioned priority"},
		{"requests", append(python, "requests"), whole, "samesite partitioned priority httponly"},
		{"yt-dlp", append(python, "yt-dlp"), whole, "samesite partitioned priority httponly"},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			dir := t.TempDir()
			k.run(t, dir, tt.write...)
			stdout, stderr := k.cookies(t, dir, "import", "out", "--session", tt.tool)
			if got := k.account(t, tt.tool, "/account"); got != tt.account {
				file, _ := os.ReadFile(filepath.Join(dir, "out"))
				t.Fatalf("the session says %q, want %q\n%s%s%s", got, tt.account, stdout, stderr, file)
			}
			if told := strings.Contains(stderr, "Local storage"); told != (tt.tool == "playwright") {
				t.Errorf("local storage is told of: %t\n%s", told, stderr)
			}
			for name, c := range k.exported(t, tt.tool) {
				has := func(attribute string, is, was bool) {
					if is != was && !strings.Contains(tt.lost, attribute) {
						t.Errorf("%s: %s is %t", name, attribute, is)
					}
				}
				has("httponly", c.HTTPOnly, name == "sid" || name == "__Host-id")
				has("secure", c.Secure, slices.Contains([]string{"sid", "__Host-id", "long", "chips"}, name))
				has("host-only", c.HostOnly, name != "wide")
				has("partitioned", c.Partitioned, name == "chips")
				has("priority", c.Priority == "High", name == "prio")
				has("session", c.Expires.IsZero(), name == "sid" || name == "__Host-id")
				has("path", c.Path == "/account", name == "deep")
				has("samesite", session.SameSite(c.SameSite) == session.SameSiteStrict, name == "__Host-id")
			}
		})
	}
}

// A login that the proxy knows is given to each tool, as the line that is
// printed says; each is logged in without the proxy.
func TestExportsAreLoadedByTheirTools(t *testing.T) {
	k := newKit(t)
	if got := k.account(t, "default", "/login"); got != "welcome" {
		t.Fatalf("login: %s", got)
	}
	if got := k.account(t, "default", "/account"); got != whole {
		t.Fatalf("the session says %q", got)
	}
	const atRoot = "alice: __Host-id chips empty json long prio sid wide" // the lines visit /
	for _, tt := range []struct {
		tool string
		run  func(t *testing.T, dir, line string) string
	}{
		{"curl", func(t *testing.T, dir, line string) string { return k.run(t, dir, "sh", "-euc", line) }},
		{"wget", func(t *testing.T, dir, line string) string {
			k.run(t, dir, "sh", "-euc", line)
			b, err := os.ReadFile(filepath.Join(dir, "index.html"))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}},
		{"playwright", k.node("playwright")},
		{"puppeteer", k.node("puppeteer")},
		{"editor", k.node("editor")},
		{"selenium", k.python("selenium")},
		{"requests", k.python("requests")},
		{"scrapy", k.python("scrapy")},
		{"yt-dlp", k.python("yt-dlp")},
	} {
		t.Run(tt.tool, func(t *testing.T) {
			dir := t.TempDir()
			how := "--for"
			if tt.tool == "editor" { // which has no line
				how = "--format"
			}
			line, _ := k.cookies(t, dir, "export", how, tt.tool, "my cookies")
			if info, err := os.Stat(filepath.Join(dir, "my cookies")); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("the file: %v, %v", info, err)
			}
			if got := tt.run(t, dir, line); got != atRoot {
				file, _ := os.ReadFile(filepath.Join(dir, "my cookies"))
				t.Errorf("without the proxy the site says %q, want %q\n%s%s", got, atRoot, line, file)
			}
		})
	}
}

// node puts the line where it belongs in a script, and runs that.
func (k *kit) node(tool string) func(t *testing.T, dir, line string) string {
	return func(t *testing.T, dir, line string) string {
		t.Helper()
		modules, err := filepath.Abs("node_modules")
		if err != nil {
			t.Fatal(err)
		}
		for _, needed := range []string{modules, strings.Replace(modules, "node_modules", "extension.mjs", 1)} {
			if err := os.Symlink(needed, filepath.Join(dir, filepath.Base(needed))); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(dir, "load.mjs"), []byte(strings.Replace(loaders[tool], "LINE", line, 1)))
		return k.run(t, dir, "node", "load.mjs")
	}
}

// python does the same.
func (k *kit) python(tool string) func(t *testing.T, dir, line string) string {
	return func(t *testing.T, dir, line string) string {
		t.Helper()
		script := loaders[tool]
		switch tool {
		case "requests": // the reply is asked for
			jar, get, _ := strings.Cut(strings.TrimSpace(line), "\n")
			line = jar + "\nreply = " + get
		case "scrapy":
			line = strings.TrimSpace(line)
		}
		write(t, filepath.Join(dir, "load.py"), []byte(strings.Replace(script, "LINE", line, 1)))
		return k.run(t, dir, "/usr/bin/python3", "load.py")
	}
}

// loaders are programs in which the line that the export printed is LINE.
var loaders = map[string]string{
	"playwright": `import { chromium } from "playwright-core";
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, proxy: { server: process.env.TUNNEL }, args: ["--no-sandbox"] });
LINE
const page = await context.newPage();
await page.goto("https://www.shop.test/");
process.stdout.write(await page.innerText("body"));
await browser.close();
`,
	"puppeteer": `import fs from "node:fs";
import puppeteer from "puppeteer-core";
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--proxy-server=" + process.env.TUNNEL] });
const browserContext = browser.defaultBrowserContext();
LINE
const page = await browser.newPage();
await page.goto("https://www.shop.test/");
process.stdout.write(await page.$eval("body", (body) => body.innerText));
await browser.close();
`,
	// As Cookie-Editor does it, interface/lib/genericCookieHandler.js.
	"editor": `import fs from "node:fs";
import { withExtension } from "./extension.mjs";
await withExtension(["--no-sandbox"], async (browser, extension) => {
  await extension.evaluate(async (cookies) => {
    for (const { session, hostOnly, ...cookie } of cookies) {
      if (hostOnly) delete cookie.domain;
      await chrome.cookies.set({ ...cookie, url: "https://www.shop.test" + cookie.path });
    }
  }, JSON.parse(fs.readFileSync("my cookies", "utf8")));
  const page = await browser.newPage();
  await page.goto("https://www.shop.test/");
  process.stdout.write(await page.$eval("body", (body) => body.innerText));
});
`,
	"selenium": `import json, os, sys
from selenium import webdriver
options = webdriver.ChromeOptions()
options.binary_location = os.environ["CHROMIUM"]
for argument in ["--headless", "--no-sandbox", "--proxy-server=" + os.environ["TUNNEL"]]:
    options.add_argument(argument)
driver = webdriver.Chrome(options=options)
LINE
driver.get("https://www.shop.test/")
sys.stdout.write(driver.find_element("tag name", "body").text)
driver.quit()
`,
	"requests": `import http.cookiejar, sys
import requests
LINE
sys.stdout.write(reply.text)
`,
	"scrapy": `import json, os, sys
import scrapy
from scrapy.crawler import CrawlerProcess

class Shop(scrapy.Spider):
    name = "shop"
    custom_settings = {"LOG_LEVEL": "ERROR"}
    def start_requests(self):
        yield LINE
    def parse(self, reply):
        sys.stdout.write(reply.text)

process = CrawlerProcess()
process.crawl(Shop)
process.start()
`,
	"yt-dlp": `import shlex, sys
import yt_dlp
line = shlex.split('''LINE''')
parsed = yt_dlp.parse_options([*line[1:], "--compat-options", "no-certifi"])
with yt_dlp.YoutubeDL(parsed.ydl_opts) as ydl: # its own loader, opener and proxy; the generic extractor wants a video
    sys.stdout.write(ydl.urlopen(parsed.urls[0]).read().decode())
`,
}
