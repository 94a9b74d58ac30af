package conn

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// URLError says what is wrong with a store's URL. It shows no part of it that
// could be a password.
type URLError struct {
	Message string // what is wrong
	Remedy  string // what would be right
}

func (e *URLError) Error() string { return e.Message + ": " + e.Remedy }

// Forms are how the URLs of a store are written, for messages and manuals.
const Forms = "redis[s]://user:password@host:6379/0, redis+unix:///run/redis.sock, " +
	"redis[s]+sentinel://user:password@host,host/MASTER/0 or redis[s]+cluster://user:password@host,host"

// What other programs write for what is written differently here.
var spelled = map[string]string{
	"unix": "redis+unix", "redis+socket": "redis+unix", "redis-socket": "redis+unix", "rediss+unix": "redis+unix",
	"redis-sentinel": "redis+sentinel", "sentinel": "redis+sentinel", "rediss-sentinel": "rediss+sentinel",
	"redis-cluster": "redis+cluster", "rediss-cluster": "rediss+cluster", "redis+clusters": "rediss+cluster",
	"valkey": "redis", "valkeys": "rediss", "redis+ssl": "rediss", "redis+tls": "rediss", "tls": "rediss", "tcp": "redis",
}

// Parse reads a store's URL in one of its [Forms]. Its errors are of type
// [*URLError]. Hosts without a port have Redis' own: 6379, Sentinels 26379.
func Parse(text string) (Options, error) {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return Options{}, &URLError{"this is no URL of a store", "write embedded, or " + Forms}
	}
	o := Options{TLS: strings.HasPrefix(scheme, "rediss")}
	port := "6379"
	switch scheme {
	case "redis", "rediss":
	case "redis+unix":
		return parseSocket(o, rest)
	case "redis+sentinel", "rediss+sentinel":
		o.Mode, port = Sentinel, "26379"
	case "redis+cluster", "rediss+cluster":
		o.Mode = Cluster
	default:
		if meant := spelled[strings.ToLower(scheme)]; meant != "" {
			return Options{}, &URLError{"a store's URL does not begin like this", "write " + meant + ":// at its beginning"}
		}
		return Options{}, &URLError{"a store's URL does not begin like this", "write " + Forms}
	}
	authority, path, _ := strings.Cut(rest, "/")
	if err := tail(rest); err != nil {
		return Options{}, err
	}
	hosts, err := o.login(authority)
	if err != nil {
		return Options{}, err
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := address(host, port)
		if err != nil {
			return Options{}, err
		}
		if slices.Contains(o.Addrs, addr) {
			return Options{}, &URLError{"an address stands twice in the store's URL", "remove one"}
		}
		o.Addrs = append(o.Addrs, addr)
	}
	if o.Mode == Single && len(o.Addrs) > 1 {
		return Options{}, &URLError{"several addresses need to be told what they are", "write redis+sentinel://HOST,HOST/MASTER for Sentinels, or redis+cluster://HOST,HOST"}
	}
	return o, o.path(path)
}

// tail refuses what no form of the URL has. A password with a / in it brings
// its @ here, which must not be shown.
func tail(rest string) error {
	authority, path, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(path, "@") || strings.ContainsAny(authority, "?#"):
		return &URLError{"a character of the password ends the URL's first part", "write /, ?, # and @ in a password as %2F, %3F, %23 and %40, or give it as store.password"}
	case strings.ContainsAny(path, "?#"):
		return &URLError{"a store's URL takes no parameters", "remove what follows the ?; what there is beside the URL stands in its long form, store: {url: …, …}"}
	}
	return nil
}

// login takes user and password off the beginning of s.
func (o *Options) login(s string) (hosts string, err error) {
	i := strings.LastIndexByte(s, '@')
	if i < 0 {
		return s, nil
	}
	user, password, _ := strings.Cut(s[:i], ":")
	if o.Username, err = url.PathUnescape(user); err == nil {
		o.Password, err = url.PathUnescape(password)
	}
	if err != nil || strings.Contains(s[:i], "@") {
		return "", &URLError{"user or password holds a character that a URL does not", "write % and @ in them as %25 and %40, or give the password as store.password"}
	}
	return s[i+1:], nil
}

// path reads what follows the hosts.
func (o *Options) path(path string) error {
	database := path
	if o.Mode == Sentinel {
		o.MasterName, database, _ = strings.Cut(path, "/")
		if o.MasterName == "" {
			return &URLError{"the URL does not say which master the Sentinels are asked for", "write its name after the hosts: redis+sentinel://HOST,HOST/MASTER"}
		}
		if strings.ContainsFunc(o.MasterName, func(r rune) bool { return r <= ' ' || r == '%' || r > '~' }) {
			return &URLError{"this is no name of a master", "write it as it stands in sentinel.conf: sentinel monitor MASTER …"}
		}
	}
	if database == "" {
		return nil
	}
	n, err := strconv.ParseUint(database, 10, 16)
	if err != nil {
		return &URLError{"the database at the end of the URL is no number", "write /0, or leave it out"}
	}
	if o.Mode == Cluster && n != 0 {
		return &URLError{"a Cluster has no databases but 0", "leave it out"}
	}
	o.DB = int(n)
	return nil
}

// parseSocket reads what follows redis+unix://.
func parseSocket(o Options, rest string) (Options, error) {
	i := strings.IndexByte(rest, '/')
	if i < 0 {
		return Options{}, &URLError{"the URL names no socket", "write redis+unix:///run/redis.sock, with three slashes"}
	}
	if err := tail(rest); err != nil {
		return Options{}, err
	}
	host, err := o.login(rest[:i])
	if err != nil {
		return Options{}, err
	}
	path, err := url.PathUnescape(rest[i:])
	switch {
	case host != "":
		return Options{}, &URLError{"a socket is on no host", "write redis+unix:///run/redis.sock, with three slashes"}
	case err != nil || len(path) < 2 || strings.ContainsRune(path, 0):
		return Options{}, &URLError{"the URL names no socket", "write redis+unix:///run/redis.sock"}
	}
	o.Addrs = []string{path}
	return o, nil
}

// address completes a host with a port.
func address(host, port string) (string, error) {
	if host == "" {
		return "", &URLError{"the URL lacks a host", "write " + Forms}
	}
	var name string
	if strings.HasSuffix(host, "]") || !strings.Contains(host, ":") {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	} else {
		var err error
		if name, port, err = net.SplitHostPort(host); err != nil {
			return "", &URLError{"this is no HOST:PORT", "write it like redis.example.com:6379; an IPv6 address stands in [ ]"}
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", &URLError{"this is no port", "ports are numbers from 1 to 65535"}
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("[]<>%\\^`{|}\"", r) }) {
		return "", &URLError{"this is no host", fmt.Sprintf("write it like redis.example.com:%s", port)}
	}
	return net.JoinHostPort(name, port), nil
}
