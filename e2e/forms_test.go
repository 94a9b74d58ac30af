package e2e_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

const (
	formSecret = "the site's own secret"
	formField  = "cf-turnstile-response"
)

// formSite shows a page with Turnstile that nobody can solve, and takes its form
// with a token that the widget's provider knows.
type formSite struct {
	verifier *captchatest.Verifier

	mu    sync.Mutex
	sums  map[string][sha256.Size]byte // of what came, without the token, by User-Agent
	asked int
}

func (s *formSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if r.Method != http.MethodPost {
		http.SetCookie(w, &http.Cookie{Name: "csrftoken", Value: "c5rf", Path: "/", Secure: true})
		fmt.Fprintf(w, `<!doctype html><title>Contact</title><form method=post action=/submit>
<input type=hidden name=csrfmiddlewaretoken value=c5rf><input name=subject value="50 %% – a+b">
<div class=cf-turnstile data-sitekey=0xForms><input type=hidden name=%s></div><button>Send</button></form>`, formField)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength {
		http.Error(w, fmt.Sprintf("%d bytes of %d came: %v", len(body), r.ContentLength, err), http.StatusBadRequest)
		return
	}
	token, err := tokenOf(r.Header.Get("Content-Type"), body)
	verdict := s.verifier.Check(formSecret, token)
	s.mu.Lock()
	s.asked++
	s.sums[r.UserAgent()] = sha256.Sum256(bytes.Replace(body, []byte(token), nil, 1))
	s.mu.Unlock()
	switch csrf, cerr := r.Cookie("csrftoken"); {
	case err != nil:
		fmt.Fprintf(w, "no form: %v", err)
	case !verdict.Success:
		fmt.Fprintf(w, "refused: %v", verdict.ErrorCodes)
	case bytes.Contains(body, []byte("csrfmiddlewaretoken")) && (cerr != nil || csrf.Value != "c5rf"):
		fmt.Fprint(w, "forged")
	default:
		fmt.Fprint(w, "accepted")
	}
}

// tokenOf finds the token as a site does.
func tokenOf(contentType string, body []byte) (string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", err
	}
	switch kind {
	case "application/json":
		var fields map[string]string
		err := json.Unmarshal(body, &fields)
		return fields[formField], err
	case "multipart/form-data":
		form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(64 << 20)
		if err != nil || len(form.Value[formField]) != 1 {
			return "", fmt.Errorf("%v, %w", form.Value[formField], err)
		}
		return form.Value[formField][0], nil
	}
	values, err := url.ParseQuery(string(body))
	return strings.Join(values[formField], ","), err // as ASP.NET reads it
}

// Programs that post a form as they are given it: in FORM its file, in KIND its
// Content-Type.
var posters = []struct {
	name    string
	command []string
}{
	{"curl", []string{"bash", "-c", `curl -sS -A "$NAME" -x "$PROXY" --cacert "$CA" -e "$PAGE" -b csrftoken=c5rf -H "Content-Type: $KIND" --data-binary "@$FORM" "$SUBMIT"`}},
	{"requests", []string{"/usr/bin/python3", "-c", `
import os, requests
e = os.environ
r = requests.post(e["SUBMIT"], data=open(e["FORM"], "rb").read(), proxies={"https": e["PROXY"]}, verify=e["CA"], timeout=120,
    headers={"User-Agent": e["NAME"], "Content-Type": e["KIND"], "Referer": e["PAGE"], "Cookie": "csrftoken=c5rf"})
print(r.text)`}},
	{"lwp", []string{"perl", "-MLWP::UserAgent", "-e", `
my $agent = LWP::UserAgent->new(agent => $ENV{NAME}, ssl_opts => {SSL_ca_file => $ENV{CA}});
$agent->proxy(https => $ENV{PROXY});
open my $file, "<:raw", $ENV{FORM}; local $/; my $form = <$file>;
print $agent->post($ENV{SUBMIT}, "Content-Type" => $ENV{KIND}, Referer => $ENV{PAGE}, Cookie => "csrftoken=c5rf", Content => $form)->content;`}},
	{"php", []string{"php", "-r", `
$c = curl_init(getenv("SUBMIT"));
curl_setopt_array($c, [CURLOPT_PROXY => getenv("PROXY"), CURLOPT_CAINFO => getenv("CA"), CURLOPT_USERAGENT => getenv("NAME"),
  CURLOPT_POSTFIELDS => file_get_contents(getenv("FORM")), CURLOPT_RETURNTRANSFER => true,
  CURLOPT_HTTPHEADER => ["Content-Type: " . getenv("KIND"), "Referer: " . getenv("PAGE"), "Cookie: csrftoken=c5rf"]]);
echo curl_exec($c);`}},
}

// Browsers and programs send forms whose captcha nobody solved, and the site
// takes each. All other bytes are as they were sent. What was learned of the
// page outlives the proxy.
func TestFormsOfRealClients(t *testing.T) {
	verifier := captchatest.NewVerifier(captchatest.Widget{SiteKey: "0xForms", Secret: formSecret, Turnstile: true, Hostnames: []string{"shop.test"}})
	const key = "0123456789abcdef0123456789abcdef"
	service, solver := solving(t, captchatest.Options{Key: key, Threads: 50, Verifier: verifier})
	site := &formSite{verifier: verifier, sums: map[string][sha256.Size]byte{}}
	o := newOrigin(t, site)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sessionproxy.yaml"), fmt.Appendf(nil, `
state: %s
sites:
  - name: shop
    hosts: [shop.test]
    origin: {ca: %s, resolve: {shop.test: %q}}
    captcha: [{type: auto, prefetch: none, budget: {per_hour: 100}}]
captchaai: {key: %s, url: %q}
`, filepath.Join(dir, "state"), o.ca, o.tls, key, solver))
	serve := func() *instance { return start(t, "serve", "--config", filepath.Join(dir, "sessionproxy.yaml")) }
	i := serve()
	ca := filepath.Join(dir, "state", "ca.pem")

	var saw map[string]string
	if err := json.Unmarshal([]byte(output(t, []string{"HOME=" + trustingHome(t, ca), "CHROMIUM=" + chromium}, "node", "forms.mjs", "http://"+i.proxy, "https://shop.test/contact")), &saw); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{"native", "formData", "json", "xhr"} {
		if saw[way] != "accepted" {
			t.Errorf("Chromium, %s: %q", way, saw[way])
		}
	}
	i.stop(t, 15)
	i = serve() // nobody opens the page here

	forms := map[string]struct{ kind, body string }{
		"a form of Django":        {"application/x-www-form-urlencoded", "csrfmiddlewaretoken=c5rf&subject=50+%25+%e2%80%93+a%2Bb&" + formField + "=&last="},
		"a postback of ASP.NET":   {"application/x-www-form-urlencoded", "__EVENTTARGET=&__VIEWSTATE=%2FwEPDwUKMTY1%3d%3d&__EVENTVALIDATION=%2fwEdAAUv%2B&" + formField + "=&ctl00%24Main%24Go=Send"},
		"JSON":                    {"application/json", "{\"n\": \"1E+2\" ,\"" + formField + "\":\"\",\"s\":\"\\u00e9\\/\"}\n"},
		"a form with 50 MiB more": largeForm(t),
	}
	var clients sync.WaitGroup
	for name, form := range forms {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		write(t, file, []byte(form.body))
		want := sha256.Sum256([]byte(form.body))
		for _, p := range posters {
			if strings.Contains(name, "50 MiB") && p.name != "curl" {
				continue // one is enough
			}
			clients.Go(func() {
				agent := p.name + "/1 " + name
				got := output(t, []string{"NAME=" + agent, "PROXY=http://" + i.proxy, "CA=" + ca, "FORM=" + file, "KIND=" + form.kind,
					"PAGE=https://shop.test/contact", "SUBMIT=https://shop.test/submit"}, p.command[0], p.command[1:]...)
				site.mu.Lock()
				defer site.mu.Unlock()
				if strings.TrimSpace(got) != "accepted" || site.sums[agent] != want {
					t.Errorf("%s, %s: %q; other bytes are as they were: %v", p.name, name, got, site.sums[agent] == want)
				}
			})
		}
	}
	clients.Wait()
	if tasks := len(service.Tasks()); tasks != site.asked || tasks != 17 {
		t.Errorf("%d tasks were solved for %d forms, want one for each of 17", tasks, site.asked)
	}
}

// largeForm is a multipart form with a file of 50 MiB.
func largeForm(t *testing.T) struct{ kind, body string } {
	t.Helper()
	var b bytes.Buffer
	m := multipart.NewWriter(&b)
	part, err := m.CreateFormFile("upload", "a.bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(part, rand.Reader, 50<<20); err != nil {
		t.Fatal(err)
	}
	_ = m.WriteField(formField, "")
	_ = m.Close()
	return struct{ kind, body string }{m.FormDataContentType(), b.String()}
}

// solving starts a captcha service that needs a second for each task, and
// returns it with its URL.
func solving(t *testing.T, o captchatest.Options) (service *captchatest.Service, url string) {
	t.Helper()
	o.Outcome = func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: time.Second} }
	service = captchatest.New(o)
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	return service, server.URL
}
