package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// envPrefix begins the variables that set top-level keys: SESSIONPROXY_ADMIN.
const envPrefix = "SESSIONPROXY_"

// captchaKey is the variable in which other programs look for the key.
const captchaKey = "CAPTCHAAI_API_KEY"

// override puts the flags, and the environment where no flag is given, in
// place of the file's values.
func (d *decoder) override(s Source, c *Config) {
	d.dir = "" // their files are relative to the working directory
	flags := map[string]string{"admin": s.Flags.Admin, "ops": s.Flags.Ops, "state": s.Flags.State, "store": s.Flags.Store}
	for name, field := range fields(reflect.ValueOf(c).Elem()) {
		store, isStore := field.Addr().Interface().(*Store)
		if isStore {
			field = reflect.ValueOf(&store.URL).Elem()
		}
		if field.Kind() != reflect.String {
			continue
		}
		at := place{name: "--" + name, text: flags[name]}
		if at.text == "" {
			at.name, at.text = d.env(strings.ToUpper(name))
		}
		if at.text == "" {
			continue
		}
		text := at.text
		if holdsSecret(name, text) {
			at.text = mask
		}
		d.forget(name)
		d.places[name] = at
		if isStore { // what stands beside another URL is not for this one
			*store = Store{}
			d.absent(name, describe(name), reflect.ValueOf(store).Elem())
			d.places["store.url"] = at
		}
		d.scalar(text, at, name, describe(name), field)
	}
	if at := d.words("--listen", "LISTEN", s.Flags.Listen); len(at) > 0 {
		d.forget("listen")
		c.Listen = make([]Listen, len(at))
		for i, at := range at {
			path := fmt.Sprintf("listen[%d]", i)
			d.places[path] = at
			d.port(at, path, &c.Listen[i])
		}
	}
	share := d.words("--share", "SHARE", s.Flags.Share)
	if len(share) > 0 {
		d.share(share, s.File, c)
	}
	if text, _ := d.lookup(captchaKey); text != "" && c.CaptchaAI.Key == "" {
		d.places["captchaai.key"] = place{name: captchaKey, text: mask}
		c.CaptchaAI.Key = text
	}
	if _, named := d.places["store.url"]; !named && len(share) == 0 {
		d.foreignStore(c)
	}
}

// env returns a variable of ours with its full name. A set but empty one counts as unset.
func (d *decoder) env(name string) (full, text string) {
	text, _ = d.lookup(envPrefix + name)
	return envPrefix + name, text
}

// words returns the words of a list from its flags, else from its variable.
func (d *decoder) words(flag, name string, given []string) []place {
	if len(given) == 0 {
		var text string
		flag, text = d.env(name)
		given = strings.Fields(text)
	}
	var words []place
	for _, w := range given {
		words = append(words, place{name: flag, text: w})
	}
	return words
}

// port reads one ADDR[,ask][,client=NAME]… into l.
func (d *decoder) port(at place, path string, l *Listen) {
	v := reflect.ValueOf(l).Elem()
	options := strings.Split(at.text, ",")
	l.Addr = options[0]
	seen := map[string]bool{"addr": true}
	for _, option := range options[1:] {
		name, value, valued := strings.Cut(option, "=")
		field := fieldOf(v, name)
		switch {
		case !valued && (option == string(AuthNone) || option == string(AuthAsk)):
			name, value, field = "auth", option, fieldOf(v, "auth")
		case !valued && field.IsValid() && field.Kind() == reflect.Bool:
			value = "true"
		case !valued || !slices.Contains([]string{"client", "session", "from"}, name):
			d.add(at, join(path, name), "this option of a port is not known", "known: ask, none, client=NAME, session=ID, from=CIDR, tls and plain_auth")
			continue
		}
		if seen[name] && name != "from" {
			d.add(at, join(path, name), fmt.Sprintf("%s stands twice", name), "remove one")
			continue
		}
		seen[name] = true
		if name == "from" {
			l.From = append(l.From, netip.Prefix{})
			field = field.Index(len(l.From) - 1)
		}
		d.scalar(value, at, join(path, name), describe("listen[]."+name), field)
	}
	for name, field := range fields(v) {
		if !seen[name] {
			d.absent(join(path, name), describe("listen[]."+name), field)
		}
	}
}

// share makes one site of the hosts and their subdomains.
func (d *decoder) share(hosts []place, file string, c *Config) {
	if file != "" {
		d.add(hosts[0], "sites", "hosts to share stand beside a configuration file", "declare the site in the file, or leave the file out")
		return
	}
	c.Sites = make([]Site, 1)
	site := &c.Sites[0]
	v := reflect.ValueOf(site).Elem()
	for name, field := range fields(v) {
		if k := describe("sites[]." + name); k.def != required {
			d.absent("sites[0]."+name, k, field)
		}
	}
	add := func(host string, at place) {
		if !slices.Contains(site.Hosts, host) {
			d.places[fmt.Sprintf("sites[0].hosts[%d]", len(site.Hosts))] = at
			site.Hosts = append(site.Hosts, host)
		}
	}
	d.places["sites[0]"] = hosts[0]
	for i, at := range hosts {
		p, message, remedy := parsePattern(at.text)
		if message == "" && p.Wildcard {
			message, remedy = "subdomains are shared with their host", "share "+strings.TrimPrefix(p.String(), "*.")
		}
		if message != "" {
			d.add(at, "sites", message, remedy)
			continue
		}
		if i == 0 {
			site.Name, site.Key = p.String(), p.String()
		}
		add(p.String(), at)
		if !p.IsIP() {
			p.Wildcard = true
			add(p.String(), at)
		}
	}
}
