package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// Direct is the name of no pool: requests leave by no other proxy.
const Direct = "direct"

// Pool is a named group of upstream proxies.
type Pool struct {
	Proxies  []Proxy       `yaml:"proxies"`
	Discover bool          `yaml:"discover"`
	Capacity int           `yaml:"capacity"`
	Idle     time.Duration `yaml:"idle"`
	MaxAge   time.Duration `yaml:"max_age"` // 0: none
	Wait     time.Duration `yaml:"wait"`
	Strict   bool          `yaml:"strict"`
	CA       string        `yaml:"ca"`
	Check    Check         `yaml:"check"`
	Ban      Ban           `yaml:"ban"`
}

// Proxy is one upstream.
type Proxy struct {
	URL      string `yaml:"url"`
	Username string `yaml:"username"`
	Password string `yaml:"password"`

	Upstream upstream.Upstream `yaml:"-"` // all of that, parsed
}

// Check is how a pool's upstreams are looked after.
type Check struct {
	URL   string        `yaml:"url"` // "": not at all
	Every time.Duration `yaml:"every"`
}

// Ban says when an upstream rests that a site refuses.
type Ban struct {
	Status []int         `yaml:"status"`
	After  int           `yaml:"after"`
	For    time.Duration `yaml:"for"`
}

// Affinity says who owns a lease.
type Affinity string

// The values of Affinity.
const (
	ByWorker  Affinity = "worker"
	ByClient  Affinity = "client"
	BySession Affinity = "session"
)

var poolName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// badPoolName says why a pool can't have a name; "" where it can.
func badPoolName(name string) (message, remedy string) {
	switch {
	case name == Direct:
		return "direct is no pool: it means that requests leave by no upstream", "rename the pool"
	case !poolName.MatchString(name):
		return "this is no pool's name", "a name is 1 to 64 of the characters A-Z a-z 0-9 _ - and begins with none of the last two"
	}
	return "", ""
}

// upstreams judges the pools, and who leaves by them.
func (j *judge) upstreams() {
	known := map[string]bool{Direct: true}
	for _, name := range slices.Sorted(maps.Keys(j.c.Upstreams)) {
		known[name] = true
		p := j.c.Upstreams[name]
		j.pool(fmt.Sprintf("upstreams[%s]", name), &p)
		j.c.Upstreams[name] = p
	}
	j.leavesBy("upstream", j.c.Upstream, known)
	for i := range j.c.Sites {
		s, at := &j.c.Sites[i], fmt.Sprintf("sites[%d]", i)
		switch {
		case s.Affinity != "":
		case s.Login != nil:
			s.Affinity = BySession
		default:
			s.Affinity = ByWorker
		}
		if s.Upstream == "" {
			s.Upstream = j.c.Upstream
			continue
		}
		j.leavesBy(at+".upstream", s.Upstream, known)
	}
}

func (j *judge) leavesBy(at, name string, known map[string]bool) {
	switch {
	case known[name] || !j.ok("upstreams"):
	case len(known) == 1: // direct
		j.at(at, "no pool has this name", "declare one, upstreams: {NAME: {proxies: [URL]}}, and write its name here")
	default:
		j.at(at, "no pool has this name", j.oneOf(name, known))
	}
}

func (j *judge) pool(at string, p *Pool) {
	if _, written := j.places[at+".proxies"]; !written && !p.Discover {
		j.at(at, "a pool has upstreams", "name them under proxies, or say discover: true")
	}
	if p.Discover && j.c.Store.URL == "embedded" {
		j.at(at+".discover", "there is nothing to discover without a Redis", "remove it, or name a Redis store")
	}
	taken := map[upstream.Upstream]string{}
	for i := range p.Proxies {
		at, x := fmt.Sprintf("%s.proxies[%d]", at, i), &p.Proxies[i]
		if !j.ok(at) || !j.ok(at+".url") {
			continue
		}
		j.proxy(at, x)
		if other, again := taken[x.Upstream]; again && x.Upstream != (upstream.Upstream{}) {
			j.at(at, fmt.Sprintf("this upstream stands twice (%s)", j.ref(other)), "remove one; capacity says how many leases each gives")
		}
		taken[x.Upstream] = at
	}
	if p.CA != "" {
		j.roots(at+".ca", p.CA)
	}
	if u, err := url.Parse(p.Check.URL); p.Check.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		j.at(at+".check.url", "a check asks for an http or https URL", "such as https://shop.example.com/robots.txt")
	}
	if _, written := j.places[at+".check.every"]; written && p.Check.URL == "" {
		j.at(at+".check.every", "a check without its URL", "set check.url too")
	}
	for i, status := range p.Ban.Status {
		if status < 200 || status > 599 {
			j.at(fmt.Sprintf("%s.ban.status[%d]", at, i), "this is no status of an answer", "statuses are 200 to 599, such as 403 and 429")
		}
	}
}

// proxy parses one upstream.
func (j *judge) proxy(at string, x *Proxy) {
	where := at
	if _, long := j.places[at+".url"]; long {
		where = at + ".url"
	}
	u, err := upstream.Parse(x.URL)
	if err != nil {
		j.at(where, err.Error(), `such as "http://user:password@10.0.0.1:3128" or "socks5://10.0.0.2:1080"`)
		return
	}
	switch {
	case x.Username == "" && x.Password != "":
		j.at(at+".password", "a password without its user name", "set username too")
		return
	case x.Username != "" && u.HasCredentials():
		j.at(at+".username", "the URL names a user already", "remove one")
		return
	case x.Username != "":
		if u, err = u.WithCredentials(x.Username, x.Password); err != nil {
			j.at(at+".username", err.Error(), "correct it, or leave it out")
			return
		}
	}
	x.Upstream = u
}
