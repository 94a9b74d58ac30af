package captchaai

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The methods of in.php.
const (
	UserRecaptcha       = "userrecaptcha" // reCAPTCHA, all kinds: see [Recaptcha]
	Turnstile           = "turnstile"     // see [TurnstileWidget]
	CloudflareChallenge = "cloudflare_challenge"
	GeeTest             = "geetest"
	GeeTestV4           = "geetest_v4" // 2captcha's; no document of CaptchaAI names it
	Base64              = "base64"     // an image in the parameter body
	Post                = "post"       // an image in File
	BLS                 = "bls"
	FriendlyCaptcha     = "friendly_captcha"
	Lemin               = "lemin"
	CaptchaFox          = "captchafox"
)

// Request is one task as in.php takes it. For the widgets that forms have,
// [Recaptcha] and [TurnstileWidget] make one.
type Request struct {
	Method string
	// Params are all others, under the protocol's own names. The client adds
	// key, method and json.
	Params url.Values
	File   *File // with method post
}

// File is an image to be read. The service takes jpg, png and gif.
type File struct {
	Name    string // with its extension
	Content []byte
}

// Sizes of images that the service takes, in bytes.
const (
	minImage = 1 << 10
	maxImage = 1 << 20
)

// needed are the parameters without which a method is refused. Each is one
// name, or names that part one need.
var needed = map[string][]string{
	UserRecaptcha:       {"googlekey", "pageurl"},
	Turnstile:           {"sitekey", "pageurl"},
	CloudflareChallenge: {"pageurl", "proxy", "proxytype"},
	GeeTest:             {"gt", "challenge", "pageurl"},
	GeeTestV4:           {"captcha_id", "pageurl"},
	Base64:              {"body"},
	Post:                {},
	BLS:                 {"body"},
	FriendlyCaptcha:     {"sitekey", "pageurl"},
	Lemin:               {"captcha_id", "div_id", "pageurl"},
	CaptchaFox:          {"sitekey", "pageurl", "proxy", "proxytype"},
}

// proxyTypes are those of each method that does not take all four.
var proxyTypes = map[string][]string{
	CloudflareChallenge: {"HTTP", "HTTPS"},
	CaptchaFox:          {"HTTP", "HTTPS"},
	"":                  {"HTTP", "HTTPS", "SOCKS4", "SOCKS5"},
}

// check refuses what the service would refuse too, without asking it: a
// refused submission counts against the address.
func (r Request) check() error {
	names, ok := needed[r.Method]
	if !ok {
		return fmt.Errorf("method %q is not known", r.Method)
	}
	for _, name := range names {
		if r.Params.Get(name) == "" {
			return fmt.Errorf("method %s needs %s", r.Method, name)
		}
	}
	for _, name := range []string{"key", "method", "json"} {
		if r.Params.Has(name) {
			return fmt.Errorf("the parameter %s is the client's own", name)
		}
	}
	if page := r.Params.Get("pageurl"); page != "" {
		if u, err := url.Parse(page); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("pageurl is to be a whole URL, with its scheme")
		}
	}
	if r.Params.Get("version") == "v3" && r.Params.Get("action") == "" {
		return errors.New("reCAPTCHA v3 needs the action that the page executes")
	}
	if err := r.checkProxy(); err != nil {
		return err
	}
	return r.checkFile()
}

func (r Request) checkProxy() error {
	proxy, kind := r.Params.Get("proxy"), r.Params.Get("proxytype")
	if (proxy == "") != (kind == "") {
		return errors.New("proxy and proxytype go together")
	}
	kinds, ok := proxyTypes[r.Method]
	if !ok {
		kinds = proxyTypes[""]
	}
	if kind != "" && !slices.Contains(kinds, kind) {
		return fmt.Errorf("proxytype of %s is one of %s", r.Method, strings.Join(kinds, ", "))
	}
	return nil
}

func (r Request) checkFile() error {
	switch {
	case r.Method != Post && r.File != nil:
		return fmt.Errorf("method %s takes no file", r.Method)
	case r.Method != Post:
		return nil
	case r.File == nil:
		return errors.New("method post needs a file")
	case len(r.File.Content) < minImage || len(r.File.Content) > maxImage:
		return fmt.Errorf("an image has %d to %d bytes, this one has %d", minImage, maxImage, len(r.File.Content))
	}
	return nil
}

// Proxy is one that the solver goes through, as the page's server would see it.
type Proxy struct {
	Type string // HTTP, HTTPS, SOCKS4 or SOCKS5
	Addr string // ip:port, or user:pass@ip:port
}

func (p Proxy) set(v url.Values) {
	set(v, "proxy", p.Addr)
	set(v, "proxytype", p.Type)
}

// Recaptcha is a widget of Google's, of any kind.
type Recaptcha struct {
	SiteKey    string
	Page       string // URL of the document that renders it
	Invisible  bool
	V3         bool
	Action     string  // needed for v3
	MinScore   float64 // v3: 0 leaves it to the service; above 0.3 is rarely reached
	Enterprise bool
	DataS      string // data-s, on Google's own services
	Cookies    string // NAME:VALUE;NAME:VALUE
	UserAgent  string
	Proxy      Proxy
}

// Request returns the widget's task.
func (w Recaptcha) Request() Request {
	v := url.Values{"googlekey": {w.SiteKey}, "pageurl": {w.Page}}
	if w.Invisible {
		v.Set("invisible", "1")
	}
	if w.V3 {
		v.Set("version", "v3")
	}
	if w.Enterprise {
		v.Set("enterprise", "1")
	}
	if w.MinScore > 0 {
		v.Set("min_score", strconv.FormatFloat(w.MinScore, 'g', 2, 64))
	}
	set(v, "action", w.Action)
	set(v, "data-s", w.DataS)
	set(v, "cookies", w.Cookies)
	set(v, "userAgent", w.UserAgent)
	w.Proxy.set(v)
	return Request{Method: UserRecaptcha, Params: v}
}

// TurnstileWidget is a widget of Cloudflare's in a form.
type TurnstileWidget struct {
	SiteKey string
	Page    string // URL of the document that renders it
	Action  string // data-action, where it has one
	Proxy   Proxy
}

// Request returns the widget's task.
func (w TurnstileWidget) Request() Request {
	v := url.Values{"sitekey": {w.SiteKey}, "pageurl": {w.Page}}
	set(v, "action", w.Action)
	w.Proxy.set(v)
	return Request{Method: Turnstile, Params: v}
}

func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// firstPoll is how long a task is left alone. Sooner costs a request and finds
// nothing.
func (r Request) firstPoll() time.Duration {
	switch {
	case r.Method == CloudflareChallenge:
		return 20 * time.Second
	case r.Method == Post || r.Method == Base64 || r.Method == BLS:
		return 10 * time.Second
	case r.Method == Turnstile || r.Params.Get("version") == "v3":
		return 5 * time.Second
	}
	return 15 * time.Second
}
