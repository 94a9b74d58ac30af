package loginsites

import (
	"crypto/rand"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Framework is a site that behaves as those of one framework do.
type Framework struct {
	http.Handler

	mu     sync.Mutex // guards what follows
	live   map[string]string
	logins int
	tries  int
}

// Logins is how many logins have succeeded, Tries how many were sent.
func (f *Framework) Logins() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.logins
}

// Tries is how often a login form was sent.
func (f *Framework) Tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tries
}

// Expire ends all logins.
func (f *Framework) Expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.live)
}

func newFramework(routes *http.ServeMux) *Framework {
	return &Framework{live: map[string]string{}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		routes.ServeHTTP(w, r)
	})}
}

// check counts a try, and says whether it has the right password.
func (f *Framework) check(user, password string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tries++
	if user != User || password != Password {
		return false
	}
	f.logins++
	return true
}

// put stores something under a new name, and returns that.
func (f *Framework) put(what string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := rand.Text()
	f.live[id] = what
	return id
}

// get returns what a cookie names.
func (f *Framework) get(r *http.Request, cookie string) (string, bool) {
	c, err := r.Cookie(cookie)
	if err != nil {
		return "", false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.live[c.Value]
	return what, ok
}

func set(w http.ResponseWriter, name, value, path string) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: path, Secure: true, HttpOnly: true})
}

func remove(w http.ResponseWriter, name, path string) {
	http.SetCookie(w, &http.Cookie{Name: name, Path: path, MaxAge: -1})
}

func hello(w http.ResponseWriter) { fmt.Fprintf(w, "<h1>Hello %s</h1>", User) }

// WordPress is wp-login.php: https://developer.wordpress.org/reference/functions/wp_signon/
// and src/wp-login.php. /wp-admin/ is a page for who is logged in.
func WordPress() *Framework {
	routes := http.NewServeMux()
	f := newFramework(routes)
	const auth, loggedIn = "wordpress_sec_5c0ffee", "wordpress_logged_in_5c0ffee"
	form := func(w http.ResponseWriter, message string) {
		fmt.Fprintf(w, `%s<form name="loginform" id="loginform" action="/wp-login.php" method="post">`+
			`<input type="text" name="log" id="user_login"><input type="password" name="pwd" id="user_pass">`+
			`<input type="submit" name="wp-submit" value="Log In"><input type="hidden" name="redirect_to" value="/wp-admin/"><input type="hidden" name="testcookie" value="1"></form>`, message)
	}
	routes.HandleFunc("GET /wp-login.php", func(w http.ResponseWriter, r *http.Request) {
		set(w, "wordpress_test_cookie", "WP%20Cookie%20check", "/")
		if r.URL.Query().Get("reauth") != "" { // "Clear any stale cookies."
			remove(w, auth, "/wp-admin")
			remove(w, auth, "/wp-content/plugins")
			remove(w, loggedIn, "/")
		}
		form(w, "")
	})
	routes.HandleFunc("POST /wp-login.php", func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("wordpress_test_cookie"); err != nil && r.PostFormValue("testcookie") != "" {
			form(w, `<div id="login_error">Cookies are blocked</div>`)
			return
		}
		if !f.check(r.PostFormValue("log"), r.PostFormValue("pwd")) {
			form(w, `<div id="login_error">The password you entered is incorrect.</div>`)
			return
		}
		id := f.put(User)
		set(w, auth, id, "/wp-content/plugins")
		set(w, auth, id, "/wp-admin")
		set(w, loggedIn, id, "/")
		http.Redirect(w, r, "https://"+r.Host+"/wp-admin/", http.StatusFound)
	})
	routes.HandleFunc("GET /wp-admin/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := f.get(r, auth); !ok {
			http.Redirect(w, r, "https://"+r.Host+"/wp-login.php?redirect_to="+url.QueryEscape("https://"+r.Host+r.URL.Path)+"&reauth=1", http.StatusFound)
			return
		}
		hello(w)
	})
	return f
}

// Django is django.contrib.admin with its CSRF protection:
// https://docs.djangoproject.com/en/stable/ref/csrf/. /admin/ is a page for
// who is logged in.
func Django() *Framework {
	routes := http.NewServeMux()
	f := newFramework(routes)
	form := func(w http.ResponseWriter, r *http.Request, message string) {
		secret := rand.Text()
		if c, err := r.Cookie("csrftoken"); err == nil {
			secret = c.Value
		}
		set(w, "csrftoken", secret, "/")
		// The token is masked: another each time, for the same secret.
		fmt.Fprintf(w, `%s<form action="%s" method="post" id="login-form"><input type="hidden" name="csrfmiddlewaretoken" value="%s.%s">`+
			`<input type="text" name="username"><input type="password" name="password"><input type="hidden" name="next" value="/admin/"></form>`,
			message, html.EscapeString(r.URL.RequestURI()), rand.Text(), html.EscapeString(secret))
	}
	routes.HandleFunc("GET /admin/login/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := f.get(r, "sessionid"); ok {
			http.Redirect(w, r, "/admin/", http.StatusFound)
			return
		}
		form(w, r, "")
	})
	routes.HandleFunc("POST /admin/login/", func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("csrftoken")
		_, secret, _ := strings.Cut(r.PostFormValue("csrfmiddlewaretoken"), ".")
		from, _ := url.Parse(r.Referer())
		origin := r.Header.Get("Origin")
		if err != nil || secret != c.Value || origin != "" && origin != "https://"+r.Host || origin == "" && (from == nil || from.Host != r.Host) {
			http.Error(w, "CSRF verification failed. Request aborted.", http.StatusForbidden)
			return
		}
		if !f.check(r.PostFormValue("username"), r.PostFormValue("password")) {
			form(w, r, `<p class="errornote">Please enter the correct username and password</p>`)
			return
		}
		set(w, "csrftoken", rand.Text(), "/") // rotate_token
		set(w, "sessionid", f.put(User), "/")
		http.Redirect(w, r, "/admin/", http.StatusFound)
	})
	routes.HandleFunc("GET /admin/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := f.get(r, "sessionid"); !ok {
			http.Redirect(w, r, "/admin/login/?next="+r.URL.Path, http.StatusFound)
			return
		}
		hello(w)
	})
	return f
}

// cookieStore is a session that is all in its cookie, as Rails and Laravel have
// it: each reply brings another value. What it holds is "TOKEN USER".
type cookieStore struct {
	f      *Framework
	cookie string
}

func (s cookieStore) load(r *http.Request) (token, user string) {
	what, _ := s.f.get(r, s.cookie)
	token, user, _ = strings.Cut(what, " ")
	if token == "" {
		token = rand.Text()
	}
	return token, user
}

func (s cookieStore) save(w http.ResponseWriter, token, user string) {
	set(w, s.cookie, s.f.put(token+" "+user), "/")
}

// Devise is Rails with Devise 4.9: https://github.com/heartcombo/devise. / is
// a page for who is logged in.
func Devise() *Framework {
	routes := http.NewServeMux()
	f := newFramework(routes)
	store := cookieStore{f, "_shop_session"}
	form := func(w http.ResponseWriter, token, message string) {
		fmt.Fprintf(w, `%s<meta name="csrf-token" content="%s"><form class="new_user" action="/users/sign_in" method="post"><input type="hidden" name="authenticity_token" value="%s">`+
			`<input name="user[email]"><input type="password" name="user[password]"><input type="submit" name="commit" value="Log in"></form>`, message, token, token)
	}
	routes.HandleFunc("GET /users/sign_in", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		store.save(w, token, user)
		if user != "" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		form(w, token, "")
	})
	routes.HandleFunc("POST /users/sign_in", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		if r.PostFormValue("authenticity_token") != token {
			http.Error(w, "InvalidAuthenticityToken", http.StatusUnprocessableEntity)
			return
		}
		if !f.check(r.PostFormValue("user[email]"), r.PostFormValue("user[password]")) {
			store.save(w, token, user)
			w.WriteHeader(http.StatusUnprocessableEntity)
			form(w, token, "Invalid Email or password.")
			return
		}
		store.save(w, rand.Text(), User)
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	routes.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		store.save(w, token, user)
		if user == "" {
			http.Redirect(w, r, "/users/sign_in", http.StatusFound)
			return
		}
		hello(w)
	})
	return f
}

// Laravel is Laravel with the routes of its starter kits:
// https://laravel.com/docs/csrf and https://laravel.com/docs/authentication.
// /dashboard is a page for who is logged in.
func Laravel() *Framework {
	routes := http.NewServeMux()
	f := newFramework(routes)
	store := cookieStore{f, "laravel_session"}
	save := func(w http.ResponseWriter, token, user string) {
		http.SetCookie(w, &http.Cookie{Name: "XSRF-TOKEN", Value: url.QueryEscape(token + "=" + rand.Text()), Path: "/"})
		store.save(w, token, user)
	}
	routes.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		save(w, token, user)
		if user != "" {
			http.Redirect(w, r, "/dashboard", http.StatusFound)
			return
		}
		fmt.Fprintf(w, `<form method="POST" action="/login"><input type="hidden" name="_token" value="%s"><input name="email"><input type="password" name="password"></form>`, token)
	})
	routes.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		if r.PostFormValue("_token") != token {
			http.Error(w, "Page Expired", 419)
			return
		}
		if !f.check(r.PostFormValue("email"), r.PostFormValue("password")) {
			save(w, token, user)
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		save(w, rand.Text(), User)
		http.Redirect(w, r, "/dashboard", http.StatusFound)
	})
	routes.HandleFunc("GET /dashboard", func(w http.ResponseWriter, r *http.Request) {
		token, user := store.load(r)
		save(w, token, user)
		if user == "" {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		hello(w)
	})
	return f
}

// Keycloak is an application on host app whose logins Keycloak makes on host
// sso: https://www.keycloak.org/docs/latest/server_development/ (authentication
// sessions), and OpenID Connect Core 1.0, section 3.1. / of app is a page for
// who is logged in.
func Keycloak(app, sso string) *Framework {
	routes := http.NewServeMux()
	f := newFramework(routes)
	const begin = "/realms/shop/protocol/openid-connect/auth"
	back := func(w http.ResponseWriter, r *http.Request, state string) {
		q := url.Values{"state": {state}, "session_state": {rand.Text()}, "iss": {"https://" + sso + "/realms/shop"}, "code": {f.put("code")}}
		http.Redirect(w, r, "https://"+app+"/oidc/callback?"+q.Encode(), http.StatusFound)
	}
	form := func(w http.ResponseWriter, state, message string) {
		action := "https://" + sso + "/realms/shop/login-actions/authenticate?" + url.Values{
			"session_code": {rand.Text()}, "execution": {rand.Text()}, "client_id": {"app"}, "tab_id": {rand.Text()},
		}.Encode()
		set(w, "AUTH_SESSION_ID", f.put("state "+state), "/realms/shop/")
		fmt.Fprintf(w, `%s<form id="kc-form-login" action="%s" method="post"><input id="username" name="username"><input id="password" name="password" type="password"><input type="hidden" name="credentialId"></form>`,
			message, html.EscapeString(action))
	}
	routes.HandleFunc("GET "+app+"/{$}", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := f.get(r, "mod_auth_openidc_session"); ok {
			hello(w)
			return
		}
		state := rand.Text()
		set(w, "mod_auth_openidc_state_"+state, "1", "/")
		q := url.Values{"response_type": {"code"}, "client_id": {"app"}, "state": {state}, "redirect_uri": {"https://" + app + "/oidc/callback"}}
		http.Redirect(w, r, "https://"+sso+begin+"?"+q.Encode(), http.StatusFound)
	})
	routes.HandleFunc("GET "+app+"/oidc/callback", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		f.mu.Lock()
		good := f.live[q.Get("code")] == "code"
		delete(f.live, q.Get("code")) // once
		f.mu.Unlock()
		if _, err := r.Cookie("mod_auth_openidc_state_" + q.Get("state")); err != nil || !good {
			http.Error(w, "OpenID Connect Provider error: invalid state or code", http.StatusBadRequest)
			return
		}
		remove(w, "mod_auth_openidc_state_"+q.Get("state"), "/")
		set(w, "mod_auth_openidc_session", f.put(User), "/")
		http.Redirect(w, r, "https://"+app+"/", http.StatusFound)
	})
	routes.HandleFunc("GET "+sso+begin, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := f.get(r, "KEYCLOAK_IDENTITY"); ok {
			back(w, r, r.URL.Query().Get("state"))
			return
		}
		form(w, r.URL.Query().Get("state"), "")
	})
	routes.HandleFunc("POST "+sso+"/realms/shop/login-actions/authenticate", func(w http.ResponseWriter, r *http.Request) {
		what, ok := f.get(r, "AUTH_SESSION_ID")
		state, _ := strings.CutPrefix(what, "state ")
		if !ok {
			http.Error(w, "Your login attempt timed out.", http.StatusBadRequest)
			return
		}
		if !f.check(r.PostFormValue("username"), r.PostFormValue("password")) {
			form(w, state, "Invalid username or password.")
			return
		}
		set(w, "KEYCLOAK_IDENTITY", f.put(User), "/realms/shop/")
		back(w, r, state)
	})
	return f
}
