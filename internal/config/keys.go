package config

import (
	"regexp"
	"slices"
	"strings"
)

// key describes one setting. What the reader knows of a setting beyond its Go
// type stands here and nowhere else: names, forms, defaults, secrecy, and the
// text of docs/configuration.md.
type key struct {
	path    string // "sites[].cookies.ttl"
	form    string // of its value; choices are parted by " | "
	def     string // its default in YAML; "" none
	meaning string
}

// Forms that the reader acts on. Others are for people.
const (
	formFile         = "FILE" // relative to the place that names it
	formDir          = "DIRECTORY"
	formFileOrStdout = AuditStdout + " | FILE"
	required         = "required" // stands in def: there is no default
)

var keys = []key{
	{"listen", "LIST", "[{addr: 127.0.0.1:8080}]", "The proxy's ports. They speak HTTP/1.1."},
	{"listen[].addr", "HOST:PORT", required, "Where the port listens. Off loopback it needs `clients`, and it needs `tls`, `plain_auth` or `from`."},
	{"listen[].auth", "none | ask", "", "`none` asks nobody and takes a name when one is sent. `ask` answers 407 until credentials come: browsers, Puppeteer and Java name themselves only when asked. The default is `ask` where there are clients, else `none`. On a port with `none` nobody is asked, so the clients' passwords guard nothing there: whoever sends no name may use every site and session."},
	{"listen[].client", "NAME", "", "Whoever uses this port is this client, and is never asked: for clients that cannot send credentials. Off loopback it needs `from`."},
	{"listen[].session", "ID", "", "Whoever uses this port uses this session, whatever else the request selects."},
	{"listen[].from", "[CIDR]", "[]", "Whom the port serves. Empty: whoever reaches it."},
	{"listen[].tls", "BOOL", "false", "An HTTPS proxy. It needs `tls.cert` and `tls.key`, or `tls.domains`."},
	{"listen[].plain_auth", "BOOL", "false", "Take passwords in clear off loopback: for a private network only."},

	{"admin", "HOST:PORT", "127.0.0.1:8081", "The admin API, `/ca.pem` and `/proxy.pac`. Off loopback it speaks https, with the certificate of `tls`, and answers to that certificate's names."},
	{"ops", "HOST:PORT", "127.0.0.1:8082", "`/metrics`, `/healthz` and `/readyz`, without a login. It may be public."},
	{"state", formDir, "./state", "The CA, the admin token, the embedded store, the spool. Made with mode 0700; by default beside the configuration file."},
	{"spool.max_mib", "N", "1024", "So many MiB of forms are kept in the state directory, all together, while they wait for captcha tokens: those over 1 MiB. A form for which there is no room is answered with 503 `spool_full`, or goes on as it came where its rules say `on_failure: forward`."},
	{"store", "embedded | URL", "embedded", "Where sessions live. `embedded` is a file in the state directory, for one machine. A Redis is `redis[s]://USER:PASSWORD@HOST:6379/0`, `redis+unix:///run/redis.sock`, `redis[s]+sentinel://USER:PASSWORD@HOST,HOST/MASTER/0` or `redis[s]+cluster://USER:PASSWORD@HOST,HOST`, or a mapping: see below."},

	{"store.url", "embedded | URL", "embedded", "As above. `%40` is an `@` of a password."},
	{"store.password", "PASSWORD", "", "The password, where it does not stand in the URL. Better `${NAME}` or `${file:PATH}` than the password itself."},
	{"store.ca", formFile, "", "Certificates (PEM) that Redis is verified against, beside the system's."},
	{"store.cert", formFile, "", "The certificate (PEM) that is shown to a Redis that asks for one."},
	{"store.key", formFile, "", "Its private key (PEM)."},
	{"store.sentinel_username", "NAME", "", "The user at the Sentinels, which know no user of Redis."},
	{"store.sentinel_password", "PASSWORD", "", "Its password, or that of all."},
	{"store.required", "BOOL", "false", "Without Redis, answer requests of declared sites with 503, and `/readyz` too. `false`: go on with the last cookies that are known, and write later."},
	{"store.encryption", "[KEY]", "[]", "Encrypt what only proxies read (AES-GCM). Each key is the base64 of 16, 24 or 32 random bytes; the first one writes, all read. What workers read stays plain: see `mirror`."},
	{"store.mirror", "BOOL", "true", "Keep `session:cookies:KEY`, the plain hash of cookies that workers read and write. `false`: no worker takes part."},
	{"store.prefix", "TEXT", `"session:"`, "What every key in Redis begins with."},

	{"ca.cert", formFile, "", "The certificate (PEM) of the authority that signs what intercepted clients are shown. Without it one is made in the state directory."},
	{"ca.key", formFile, "", "Its private key (PEM)."},
	{"ca.constrain", "BOOL", "false", "Give the authority that is made name constraints: it can sign for the declared hosts and no others. Not beside `ca.cert`, whose authority is as it is."},

	{"undeclared", "tunnel | refuse", "tunnel", "What becomes of hosts that no site declares: a blind tunnel, or a refusal."},

	{"egress.allow", "[CIDR | HOST]", "[]", "Where hosts that no site declares may lead all the same: networks, addresses, and hosts, in which `*` stands for any run of characters. A host that is named here may resolve to loopback and private addresses, as a declared one may. Link-local and metadata addresses are open only to whom names the address."},
	{"egress.deny", "[CIDR | HOST]", "[]", "Where nobody may go, declared or not, whatever `allow` says. Only the addresses in `origin.resolve`, and sites that are declared by their address, are past it."},
	{"egress.mode", "open | report | enforce", "enforce", "What becomes of a connection for a host that no site declares to loopback, a private network or a reserved address, and for any host to a link-local or metadata address. `enforce` refuses it, `report` only logs and counts it and what `deny` names, `open` takes no notice of kinds of address."},
	{"upstream", "direct | POOL", "direct", "The pool of upstream proxies, see `upstreams`, that all traffic leaves by: that of undeclared hosts, too. `direct`: by none. The environment's proxies are never used."},

	{"tls.cert", formFile, "", "The certificate (PEM, chain included) of the ports with `tls: true`, and of an `admin` off loopback."},
	{"tls.key", formFile, "", "Its private key (PEM)."},
	{"tls.domains", "[HOST]", "[]", "The proxy's own names, for each of which a certificate is fetched by ACME and renewed, in place of `cert` and `key`. Naming one agrees to the authority's terms. The first is shown to clients that ask for none of them."},
	{"tls.email", "ADDRESS", "", "Whom the authority writes to."},
	{"tls.acme", "URL", "https://acme-v02.api.letsencrypt.org/directory", "The authority's ACME directory."},
	{"tls.acme_ca", formFile, "", "Certificates (PEM) that the directory's server is verified against, beside the system's."},
	{"tls.http", "HOST:PORT", "\":80\"", "Where the authority's http-01 challenge is answered: port 80 of `domains` has to lead here. Nothing else is."},

	{"audit.to", formFileOrStdout, AuditStdout, "Where the audit log goes: one line of JSON for each call of the admin API that changes or reveals something, each first use of a session by a worker, each refusal of what is not one's own. Names, never values. `SIGHUP` opens a file anew, as log rotation wants it."},

	{"auth.keys", "[FILE]", "[]", "Private keys (Ed25519 in PEM, as `openssl genpkey -algorithm ed25519` makes them) for the tokens of operators and clients: the first signs, all are good. To rotate, put the new one first, and take the old one out a month later. Empty: they are made, renewed each month, and kept in the store, under a secret that the CA's key gives."},
	{"auth.operators", "LIST", "[]", "Who may use the admin API by name and password, beside whoever has the admin token."},
	{"auth.operators[].name", "NAME", required, "1 to 64 of `A-Z a-z 0-9 . _ ~ -`. Not `token`: so the audit log calls the admin token."},
	{"auth.operators[].password", "PASSWORD", required, "As of a client. `sessionproxy operators add` asks for one and prints the whole entry."},
	{"auth.operators[].role", "viewer | operator", "viewer", "`viewer` looks at everything but values, and changes nothing. `operator` may do all."},

	{"clients", "LIST", "[]", "Who may use the proxy. Empty: anyone on loopback, under any name, and the proxy serves loopback only."},
	{"clients[].name", "NAME", required, "1 to 64 of `A-Z a-z 0-9 . _ ~ -`. `-worker` and `-session` part a user name and stand in no name."},
	{"clients[].password", "PASSWORD", required, "Its password, better as `${NAME}` or `${file:PATH}` than as it is; or a hash of it, argon2id (`$argon2id$…`) or bcrypt (`$2b$…`), as `sessionproxy operators add` and `htpasswd -nB` make them."},
	{"clients[].sites", "[SITE]", "[]", "The sites, by name, whose sessions it may use. Empty: all."},
	{"clients[].sessions", "[GLOB]", "[]", "The sessions it may use. Empty: all."},
	{"clients[].access", "write | read", "write", "`read`: its requests neither capture cookies nor log in."},
	{"clients[].deliver", "BOOL", "true", "`false`: shared cookies that a site sets are not passed on to it (deletions are), so that it never holds the session."},

	{"sites", "LIST", "", "The sites whose sessions are shared, one at least. Nothing else is intercepted."},
	{"sites[].name", "TEXT", required, "What clients, commands, logs and metrics call it."},
	{"sites[].hosts", "[PATTERN]", required, "Its hosts: names, IP addresses, `\"*.shop.example.com\"` for every host below that name, which is none that a registry gives out names below, as `com`. `host:port` binds to one port, else every port counts. An exact host beats the longest wildcard."},
	{"sites[].key", "KEY", "", "What the site is called in the store's keys; without `{`, `}` and `~`. The default is the first host without `*.`."},
	{"sites[].origin.ca", formFile, "", "Certificates (PEM) that the site's servers are verified against, beside the system's."},
	{"sites[].origin.cert", formFile, "", "The certificate (PEM) that the proxy shows to the site's servers."},
	{"sites[].origin.key", formFile, "", "Its private key (PEM)."},
	{"sites[].origin.insecure", "BOOL", "false", "Verify nothing. Anyone on the way can then take the session."},
	{"sites[].origin.resolve", "{HOST[:PORT]: HOST:PORT}", "{}", "Dial this address in place of that host. With a port, `\"shop.example.com:443\": \"127.0.0.1:8443\"`, it counts for that port alone; without, for every port, so that plain http would go to a server that speaks https. Wildcards are not known here: name each host."},
	{"sites[].origin.https_only", "BOOL", "false", "Answer plain requests with 307 to https."},
	{"sites[].cookies.share", "[GLOB]", `["*"]`, "The cookies, by name, that the session shares."},
	{"sites[].cookies.private", "[GLOB]", "[]", "More cookies that belong to one worker each, beside the built-in list of CSRF cookies."},
	{"sites[].cookies.capture", "BOOL", "true", "Take cookies that the site sets into the session."},
	{"sites[].cookies.inject", "BOOL", "true", "Attach the session's cookies to requests."},
	{"sites[].cookies.precedence", "shared | client", "shared", "Who wins a name that the session and the client both have."},
	{"sites[].cookies.ttl", "DURATION | auto", "auto", "How long a session lives unused. `auto`: the longest of its cookies' own lives less 5 %, or 30m where all are session cookies."},
	{"sites[].cookies.max_age", "DURATION", "0", "When a session ends, used or not. 0: never."},
	{"sites[].cookies.deliver", "BOOL", "true", "`false`: shared cookies that the site sets are not passed on to clients (deletions are)."},
	{"sites[].cookies.protect_logout", "[GLOB]", `["*/logout*", "*/signout*", "*/sign_out*", "*/logoff*", "*action=logout*"]`, "Requests whose path and query, in lower case, match one leave without any shared cookie, so that one client cannot log out all. `[]` switches it off."},
	{"sites[].headers", "{NAME: VALUE}", "{}", "Header fields that are set on every request of the site, those that foreign pages cause included. Not those that the proxy answers for, nor those that tell whose request it is, such as `Origin`, `Referer` and `Sec-Fetch-*`."},
	{"sites[].login.request.method", "METHOD", "POST", "The request by which clients log in: its method."},
	{"sites[].login.request.host", "HOST", "", "Its host, where others of the site have the path too. Without it every host counts."},
	{"sites[].login.request.path", "PATH", required, "Its path, without the query; `*` stands for any run of characters."},
	{"sites[].login.ignore", "[GLOB]", "[]", "More fields, of the query and of the body, in which two login requests may differ and be the same login. Built in: `csrf_token`, `_csrf`, `csrfmiddlewaretoken`, `authenticity_token`, `_token`, `__RequestVerificationToken` and the fields of captchas."},
	{"sites[].login.logged_out.status", "[STATUS]", "[]", "A reply with one of these statuses shows a session that is logged out. So does one with any of the following signs."},
	{"sites[].login.logged_out.redirect", "GLOB", "", "A redirect to a URL, in full, that matches. Requests for such a URL itself show nothing: it is the login's page."},
	{"sites[].login.logged_out.cookie", "COOKIE", "", "The reply deletes this cookie."},
	{"sites[].login.logged_out.body", "TEXT", "", "An HTML page holds this text, within its first 256 KiB."},
	{"sites[].login.logged_in.status", "[STATUS]", "[]", "A reply to the login request with one of these statuses, and with all of the following signs that are given, shows that it succeeded. Without any, one of 2xx or 3xx that is not `logged_out` does."},
	{"sites[].login.logged_in.redirect", "GLOB", "", "A redirect to a URL, in full, that matches."},
	{"sites[].login.logged_in.cookie", "COOKIE", "", "The reply sets this cookie."},
	{"sites[].login.logged_in.body", "TEXT", "", "An HTML page holds this text, within its first 256 KiB."},
	{"sites[].login.wait", "DURATION | auto", "auto", "How long a client waits for another's login. `auto`: 30 s, or 150 s where the login's form gets a captcha token by one of the site's rules."},
	{"sites[].login.on_timeout", "proceed | fail", "proceed", "What becomes of it then. `proceed`: the one that has waited longest logs in, one at a time. `fail`: 503 `login_wait`."},
	{"sites[].login.recipe", "LIST", "[]", "The steps by which the proxy logs in by itself, once a reply has shown that the session is logged out."},
	{"sites[].login.recipe[].get", "URL", "", "A page to fetch: a path on `https://KEY`, or a URL on a host of the site. A step has this or `post`."},
	{"sites[].login.recipe[].post", "URL", "", "Where to send a form or a JSON document."},
	{"sites[].login.recipe[].form", "{FIELD: TEXT}", "{}", "The form's fields. In texts, `{user}`, `{password}` and `{totp}` stand for what the account has, `{name}` for what an earlier step took."},
	{"sites[].login.recipe[].json", "VALUE", "", "The JSON document, written as YAML."},
	{"sites[].login.recipe[].headers", "{NAME: TEXT}", "{}", "More header fields of this request."},
	{"sites[].login.recipe[].take", "{NAME: FROM}", "{}", "What to take from the reply: a CSS selector (the element's `value`, `content`, `action` or `href`, else its text), `header:NAME`, `cookie:NAME` or `json:PATH`, such as `json:data.token`."},
	{"sites[].login.accounts", "LIST", "[]", "The accounts that the recipe logs in with, one a session."},
	{"sites[].login.accounts[].id", "ID", "default", "The session."},
	{"sites[].login.accounts[].user", "TEXT", required, "The user's name."},
	{"sites[].login.accounts[].password", "PASSWORD", required, "`${NAME}` or `${file:PATH}`: a password itself is refused here."},
	{"sites[].login.accounts[].totp", "SECRET", "", "The secret of one-time codes (RFC 6238), in base32, as `${NAME}` or `${file:PATH}`."},

	{"sites[].captcha", "LIST", "[]", "Which forms get a token, and for which widget. The first rule that is for a form and a field counts. It needs `captchaai.key`, but for `solver: static`, for sitekeys that are published for tests, and where others push tokens."},
	{"sites[].captcha[].type", "TYPE", required, "`recaptcha_v2`, `recaptcha_v2_invisible`, `recaptcha_v3`, each of them with `_enterprise` after it, `turnstile`, or `auto`: whatever widgets the site's pages show. `auto` fills forms that come from a page (`Referer`) on which a widget was seen."},
	{"sites[].captcha[].method", "METHOD", "POST", "Of the form's request. With `GET` the field is looked for in the query."},
	{"sites[].captcha[].path", "GLOB", "", "Of the form's request, without the query. Without it the rule is for all."},
	{"sites[].captcha[].sitekey", "SITEKEY", "", "The widget's key, as the page has it in `data-sitekey`, or in `api.js?render=`. Without it the proxy learns it from the pages that it relays."},
	{"sites[].captcha[].action", "ACTION", "", "What the page executes the widget for. reCAPTCHA v3 needs it, Turnstile may have it. It is learned with the sitekey."},
	{"sites[].captcha[].page", "URL", "", "The page that shows the widget. Where it is in a frame, the frame's own URL. Without it: the form's `Referer`, else the page on which the widget was seen."},
	{"sites[].captcha[].field", "FIELD", "", "The field that takes the token: a name, or a path in JSON such as `$.captcha.token`. Without it: that of the widget."},
	{"sites[].captcha[].when", "empty | missing | always", "empty", "`empty`: the field is there and empty. `missing`: it is empty, or not there and added. `always`: whatever it holds."},
	{"sites[].captcha[].solver", "captchaai | static", "captchaai", "`static`: nothing is solved, and the token is a constant; for sites in test mode."},
	{"sites[].captcha[].token", "TOKEN", "", "The constant of `static`."},
	{"sites[].captcha[].prefetch", "page | none", "page", "`page`: begin to solve when a client is shown the page, if the sitekey was needed within the hour, one at a time."},
	{"sites[].captcha[].pool", "N", "0", "So many tokens are kept ready while the sitekey was asked for within the hour. A token lives 90 s, of Turnstile 240 s, and what is not used by then is solved anew: each is paid for."},
	{"sites[].captcha[].budget.per_hour", "N", "20", "So many solves an hour may be made for the site, by all proxies together."},
	{"sites[].captcha[].max_wait", "DURATION | auto", "auto", "How long a form waits for its token. `auto`: 25 s for a request with Fetch metadata, since browser drivers give up at 30 s, else 90 s. The solve goes on, and its token is for the next form."},
	{"sites[].captcha[].on_failure", "reject | forward", "reject", "What becomes of a form without a token: 503 `captcha_failed`, or it goes on as it came."},

	{"captchaai.key", "KEY", "", "The key of an account at CaptchaAI, or at a service that speaks as it does. Without one nothing is solved. Better `${CAPTCHAAI_API_KEY}` than the key itself; that variable is understood without being named, too."},
	{"captchaai.url", "URL", "https://ocr.captchaai.com", "Where the service is. Off loopback by https, since each call holds the key."},
	{"captchaai.threads", "N | auto", "auto", "How many tasks all proxies together may have open at the service. `auto`: as many threads as the account's plan has."},
	{"sites[].upstream", "direct | POOL", "", "The pool that the site's traffic leaves by. The default is the top level's."},
	{"sites[].affinity", "worker | client | session", "", "Who owns a lease: each worker of a client has an upstream of its own, or the client with all its workers, or all who use a session. The default is `session` for a site with `login`, since sites look at where a session comes from, else `worker`."},

	{"upstreams", "{NAME: POOL}", "{}", "Pools of upstream proxies, by name. Each owner leases one upstream of its pool, and all its traffic leaves by that. Names hold `A-Z a-z 0-9 _ -`."},
	{"upstreams[].proxies", "[URL]", "[]", "The upstreams: `http://`, `https://` and `socks5://` URLs with user name and password, percent-encoded, or mappings. They look up the names of targets. A pool without any has `discover`."},
	{"upstreams[].proxies[].url", "URL", required, "Where the upstream is."},
	{"upstreams[].proxies[].username", "TEXT", "", "Its user name, as it is."},
	{"upstreams[].proxies[].password", "PASSWORD", "", "Its password, as it is. Better `${NAME}` or `${file:PATH}` than the password itself."},
	{"upstreams[].discover", "BOOL", "false", "Also lease what other programs add to the pool's set in Redis. It needs a Redis store."},
	{"upstreams[].capacity", "NUMBER", "1", "How many leases each upstream gives at once."},
	{"upstreams[].idle", "DURATION", "30s", "A lease that nobody has used for so long goes back."},
	{"upstreams[].max_age", "DURATION", "0", "A lease that is so old takes no new requests; its owner gets another one, on another upstream if one is free. 0: never."},
	{"upstreams[].wait", "DURATION", "10s", "How long a request waits for a lease, or for two where it moves. Then it is answered with 503 `lease_exhausted`."},
	{"upstreams[].strict", "BOOL", "false", "`true`: an owner whose upstream is out of order gets 503 `lease_lost` and no other upstream, until its own is back, or it has asked for nothing during `idle`."},
	{"upstreams[].ca", formFile, "", "Certificates (PEM) that `https://` upstreams are verified against, beside the system's."},
	{"upstreams[].check.url", "URL", "", "Asked for through each upstream that nobody uses. One that fails rests; one that rests and succeeds comes back. Without it only traffic tells."},
	{"upstreams[].check.every", "DURATION", "1m", "How often, by one of all proxies."},
	{"upstreams[].ban.status", "[NUMBER]", "[]", "Statuses of declared sites by which they refuse an upstream, such as 403 and 429."},
	{"upstreams[].ban.after", "NUMBER", "3", "So many of them in a row have the upstream rest."},
	{"upstreams[].ban.for", "DURATION", "10m", "So long."},
}

// holdsSecret says whether a value at the generic path may be a secret. A
// header field may be one that clients must not hold, a check may ask with a
// key, and a store's URL may hold a password, in its place or out of it. So may
// an upstream's that stands where the name of its pool belongs.
func holdsSecret(path, value string) bool {
	switch path {
	case "clients[].password", "auth.operators[].password", "sites[].headers", "captchaai.key", "sites[].captcha[].token",
		"sites[].login.accounts[].password", "sites[].login.accounts[].totp",
		"sites[].login.recipe[].form", "sites[].login.recipe[].json", "sites[].login.recipe[].headers",
		"upstreams[].proxies[]", "upstreams[].proxies[].url", "upstreams[].proxies[].username", "upstreams[].proxies[].password",
		"upstreams[].check.url", "store.password", "store.sentinel_password", "store.encryption":
		return true
	case "store", "store.url", "captchaai.url", "upstream", "sites[].upstream":
		return strings.ContainsAny(value, ":/@")
	}
	return userInfo.MatchString(value)
}

// userInfo is in a URL with a password, whatever key it was given to.
var userInfo = regexp.MustCompile(`//[^/]*@`)

// fromOutside says whether the value at the generic path never stands in the
// file itself: what logs in to a site is worth more than the sessions here.
func fromOutside(path string) bool {
	return path == "sites[].login.accounts[].password" || path == "sites[].login.accounts[].totp"
}

// outside is a value that is one variable or one file.
var outside = regexp.MustCompile(`^\$\{[^}]+\}$`)

// describe returns the description of the key at a generic path. An item of a
// list or map is described with it.
func describe(path string) key {
	i := slices.IndexFunc(keys, func(k key) bool { return k.path == path })
	if i < 0 {
		return key{path: path}
	}
	return keys[i]
}

// names returns the names of the keys under a generic path, in order.
func names(under string) []string {
	var all []string
	for _, k := range keys {
		rest, ok := strings.CutPrefix(k.path, under)
		if under != "" && ok {
			rest, ok = strings.CutPrefix(rest, ".")
		}
		name, _, _ := strings.Cut(rest, ".")
		name, _, _ = strings.Cut(name, "[")
		if ok && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

var index = regexp.MustCompile(`\[[^\[\]]+\]`)

// generic turns the path of one value into the path of its key: sites[2].name
// into sites[].name, and upstreams[eu].idle into upstreams[].idle.
func generic(path string) string { return index.ReplaceAllString(path, "[]") }

// join is the path of the key name under path.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// parent is the path that holds path: a list, a mapping, or "" the whole.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
