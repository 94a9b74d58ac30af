package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/form"
)

// captchaKeyLength is that of every key, and what else is sent gets the
// address banned.
const captchaKeyLength = 32

// captchaAI judges the account that solves.
func (j *judge) captchaAI() {
	c := j.c.CaptchaAI
	if c.Key != "" && (len(c.Key) != captchaKeyLength || strings.ContainsFunc(c.Key, func(r rune) bool { return r <= ' ' || r > '~' })) {
		j.at("captchaai.key", fmt.Sprintf("a key has %d characters, and no spaces among them", captchaKeyLength), "copy it from the account's page as it stands there")
	}
	u, err := url.Parse(c.URL)
	switch {
	case !j.ok("captchaai.url"):
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		j.at("captchaai.url", "this is no service's URL", "write it like https://ocr.captchaai.com, with nothing but a path behind it")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		j.at("captchaai.url", "the key would cross the network in clear", "write https://"+u.Host)
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// unsolved are types that people know and the service does not solve.
var unsolved = map[string]string{
	"hcaptcha": "hCaptcha", "h_captcha": "hCaptcha", "funcaptcha": "FunCaptcha", "arkose": "FunCaptcha", "arkoselabs": "FunCaptcha",
	"geetest": "GeeTest", "geetest_v3": "GeeTest", "geetest_v4": "GeeTest v4",
	"cloudflare_challenge": "a Cloudflare challenge", "friendly_captcha": "Friendly Captcha", "image": "an image",
}

// captchas judges the rules of a site for its forms.
func (j *judge) captchas(at string, s Site) {
	seen := map[Captcha]string{}
	for i, c := range s.Captcha {
		at := fmt.Sprintf("%s[%d]", at, i)
		if !j.ok(at + ".type") {
			continue
		}
		if !j.captchaType(at+".type", c.Type) {
			continue
		}
		j.captchaForm(at, c)
		j.captchaSolver(at, c)
		if c.Type == CaptchaAuto {
			j.captchaAuto(at, c)
		} else {
			j.captchaWidget(at, c, c.Task(s))
		}
		same := Captcha{Method: c.Method, Path: c.Path, Field: c.Field, SiteKey: c.SiteKey, Action: c.Action}
		if other, again := seen[same]; again && j.ok(at+".sitekey") {
			j.at(at, "another entry is for the same form, sitekey and action ("+j.ref(other)+")", "remove one")
		}
		seen[same] = at
	}
}

func (j *judge) captchaType(at, name string) bool {
	known := []string{CaptchaAuto}
	for _, t := range captcha.Types {
		known = append(known, string(t))
	}
	if slices.Contains(known, name) {
		return true
	}
	remedy := "known: " + strings.Join(known, ", ")
	switch what, near := unsolved[strings.ToLower(name)], Nearest(name, known); {
	case what == "hCaptcha" || what == "FunCaptcha" || what == "GeeTest v4":
		j.at(at, "CaptchaAI does not solve "+what, "remove it; "+remedy)
	case what != "":
		j.at(at, what+" gives no token that a form holds", "remove it; "+remedy)
	case near != "":
		j.at(at, "this is no type of widget", "did you mean "+near+"?")
	default:
		j.at(at, "this is no type of widget", remedy)
	}
	return false
}

// captchaForm judges which forms a rule is for.
func (j *judge) captchaForm(at string, c Captcha) {
	if j.ok(at+".method") && (c.Method != strings.ToUpper(c.Method) || !httpguts.ValidHeaderFieldName(c.Method)) {
		j.at(at+".method", "this is no method", "methods are upper-case, such as POST")
	}
	if c.Path != "" && !pathGlob.MatchString(c.Path) {
		j.at(at+".path", "no path matches this", "a path begins with / and has no query; * stands for any run of characters")
	}
	if c.Path == "" && c.When != WhenEmpty && c.Type != CaptchaAuto && j.ok(at+".when") {
		j.at(at+".when", "every form of the site would get a token", "add path: the form's")
	}
	if c.Field != "" {
		if _, err := form.ParseField(c.Field); err != nil {
			j.at(at+".field", err.Error(), "write a field's name, or a path such as $.captcha.token")
		}
	}
}

// captchaSolver judges where a rule's tokens come from.
func (j *judge) captchaSolver(at string, c Captcha) {
	static := c.Solver == SolverStatic
	switch err := captcha.CheckToken(c.Token); {
	case !j.ok(at+".solver") || !j.ok(at+".token"):
	case static && c.Token == "":
		j.at(at+".solver", "token is missing: a static solver gives a constant", "add token: as the site takes it in its test mode")
	case static && err != nil:
		j.at(at+".token", err.Error(), "copy it as it stands in the site's test mode")
	case !static && c.Token != "":
		j.at(at+".token", "a constant is given by solver: static alone", "add solver: static, or remove token")
	}
	if c.Pool > captcha.MaxReady {
		j.at(at+".pool", fmt.Sprintf("pool is %d at most", captcha.MaxReady), "a token lives for a minute or two: keep as many as are used in that time")
	}
	switch {
	case c.Pool == 0 || !j.ok(at+".pool"):
	case static:
		j.at(at+".pool", "a constant needs no pool", "remove it")
	case j.c.CaptchaAI.Key == "" && j.ok("captchaai.key"):
		j.at(at+".pool", "nobody solves what is to be kept ready", "set captchaai.key, or remove pool")
	}
}

// captchaAuto judges a rule that takes widgets as pages show them.
func (j *judge) captchaAuto(at string, c Captcha) {
	for _, known := range []struct{ name, value string }{
		{"sitekey", c.SiteKey}, {"action", c.Action}, {"page", c.Page}, {"field", c.Field},
	} {
		if known.value != "" {
			j.at(at+"."+known.name, "the type auto learns this from the page", "remove it, or name the widget's type")
		}
	}
	if c.When != WhenEmpty && j.ok(at+".when") {
		j.at(at+".when", "the type auto fills fields that are there and empty", "remove it, or name the widget's type")
	}
}

// captchaWidget judges the widget of a known type.
func (j *judge) captchaWidget(at string, c Captcha, t captcha.Task) {
	key := t.Key()
	key.Site = "site" // whose own key is judged in its place
	if c.SiteKey == "" {
		key.SiteKey = "learned"
	}
	switch err := key.Check(); {
	case !j.ok(at + ".sitekey"):
	case err != nil && strings.HasPrefix(err.Error(), "action"):
		j.at(at+".action", "this is no action", "copy it from the page: A-Z a-z 0-9 _ - . /")
	case err != nil:
		j.at(at+".sitekey", "this is no sitekey", "copy it from the page: A-Z a-z 0-9 _ - .")
	}
	switch {
	case t.Type.IsV3() && c.Action == "" && c.SiteKey != "" && c.Solver == SolverCaptchaAI:
		j.at(at, "action is missing: "+c.Type+" is solved for one", "add action: as the page has it in execute(SITEKEY, {action: …})")
	case !t.Type.HasAction() && c.Action != "":
		j.at(at+".action", c.Type+" has no action", "remove it")
	}
	if err := captcha.CheckPage(c.Page); err != nil && j.ok(at+".page") && c.Page != "" {
		j.at(at+".page", err.Error(), "write it like https://shop.example.com/login")
	}
}
