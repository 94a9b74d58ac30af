package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/sessionproxy/sessionproxy/captcha"
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

// captchas judges the widgets of a site.
func (j *judge) captchas(at string, s Site) {
	seen := map[captcha.Key]string{}
	for i, c := range s.Captcha {
		at := fmt.Sprintf("%s[%d]", at, i)
		if !j.ok(at + ".type") {
			continue
		}
		if j.captchaType(at+".type", c.Type) {
			j.captcha(at, c, c.Task(s), seen)
		}
	}
}

func (j *judge) captchaType(at, name string) bool {
	var known []string
	for _, t := range captcha.Types {
		known = append(known, string(t))
	}
	if slices.Contains(known, name) {
		return true
	}
	remedy := "known: " + strings.Join(known, ", ")
	switch what, near := unsolved[strings.ToLower(name)], nearest(name, known); {
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

// captcha judges one widget of a known type.
func (j *judge) captcha(at string, c Captcha, t captcha.Task, seen map[captcha.Key]string) {
	key := t.Key()
	key.Site = "site" // whose own key is judged in its place
	field := ""
	switch err := key.Check(); {
	case !j.ok(at+".sitekey") || c.SiteKey == "":
	case err != nil && strings.HasPrefix(err.Error(), "action"):
		j.at(at+".action", "this is no action", "copy it from the page: A-Z a-z 0-9 _ - . /")
	case err != nil:
		j.at(at+".sitekey", "this is no sitekey", "copy it from the page: A-Z a-z 0-9 _ - .")
	default:
		field = at + ".sitekey"
	}
	switch {
	case t.Type.IsV3() && c.Action == "":
		j.at(at, "action is missing: "+c.Type+" is solved for one", "add action: as the page has it in execute(SITEKEY, {action: …})")
	case !t.Type.HasAction() && c.Action != "":
		j.at(at+".action", c.Type+" has no action", "remove it")
	}
	if other, again := seen[key]; again && field != "" {
		j.at(field, "another entry has this sitekey and action ("+j.ref(other)+")", "remove one")
	}
	seen[key] = at
	if err := captcha.CheckPage(c.Page); err != nil && j.ok(at+".page") && c.Page != "" {
		j.at(at+".page", err.Error(), "write it like https://shop.example.com/login")
	}
	if c.Pool > captcha.MaxReady {
		j.at(at+".pool", fmt.Sprintf("pool is %d at most", captcha.MaxReady), "a token lives for a minute or two: keep as many as are used in that time")
	}
	if c.Pool > 0 && j.c.CaptchaAI.Key == "" && j.ok("captchaai.key") {
		j.at(at+".pool", "nobody solves what is to be kept ready", "set captchaai.key, or remove pool")
	}
}
