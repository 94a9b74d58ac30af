package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// Login is the body of POST /api/v1/login.
type Login struct {
	Name     string `json:"name"`
	Password string `json:"password"` // of the name "token" the admin token, for browsers
	Device   string `json:"device"`   // what the list of devices calls it; "": its User-Agent
	Browser  bool   `json:"browser"`  // answer with a cookie in place of tokens
}

// Refresh is the body of POST /api/v1/refresh.
type Refresh struct {
	RefreshToken string `json:"refresh_token"`
}

// LoggedIn is the answer to both. Its first fields are those of RFC 6749,
// section 5.1; a browser gets none of them.
type LoggedIn struct {
	AccessToken  string `json:"access_token,omitempty"`
	TokenType    string `json:"token_type,omitempty"`
	ExpiresIn    int    `json:"expires_in,omitempty"` // seconds
	RefreshToken string `json:"refresh_token,omitempty"`
	Me
}

// Me is the answer to GET /api/v1/me.
type Me struct {
	Name   string      `json:"name"`
	Role   config.Role `json:"role"`
	Device string      `json:"device"` // ID of what he is logged in with; "" for the admin token
}

// cookieName promises a browser's cookie to have come from us alone, over TLS
// or on loopback.
const cookieName = "__Host-sessionproxy"

func setCookie(w http.ResponseWriter, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: maxAge,
		Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// login is POST /api/v1/login.
func (s *server) login(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	c.action = audit.OperatorLogin
	var body Login
	if p := readJSON(w, r, &body, `{"name": "ana", "password": "…", "device": "laptop", "browser": false}`); p != nil {
		p.write(w)
		return
	}
	if s.access.Known(body.Name) { // else it may be a password in the wrong place
		c.target = body.Name
	}
	if body.Name == config.TokenOperator && !body.Browser {
		problem{http.StatusConflict, "admin_token", "The admin token needs no login but in a browser. Send it as: Authorization: Bearer TOKEN."}.write(w)
		return
	}
	device := describe(cmp.Or(body.Device, r.UserAgent()))
	if body.Browser {
		value, who, err := s.access.LoginBrowser(r.Context(), body.Name, body.Password, device, c.from)
		if err != nil {
			s.loginFailed(w, r, err)
			return
		}
		c.who = who
		setCookie(w, value, 0) // it slides, which its holder cannot see
		writeJSON(w, http.StatusOK, "application/json", LoggedIn{Me: me(who)})
		return
	}
	tokens, err := s.access.Login(r.Context(), body.Name, body.Password, device, c.from)
	if err != nil {
		s.loginFailed(w, r, err)
		return
	}
	c.who = tokens.Operator
	writeJSON(w, http.StatusOK, "application/json", loggedIn(tokens))
}

// refresh is POST /api/v1/refresh.
func (s *server) refresh(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	var body Refresh
	if p := readJSON(w, r, &body, `{"refresh_token": "…"}`); p != nil {
		p.write(w)
		return
	}
	tokens, err := s.access.Refresh(r.Context(), body.RefreshToken, c.from)
	if err != nil {
		s.loginFailed(w, r, err)
		return
	}
	c.who = tokens.Operator
	writeJSON(w, http.StatusOK, "application/json", loggedIn(tokens))
}

func loggedIn(t access.Tokens) LoggedIn {
	return LoggedIn{t.Access, "Bearer", int(time.Until(t.Ends).Round(time.Second).Seconds()), t.Refresh, me(t.Operator)}
}

func me(o access.Operator) Me { return Me{o.Name, o.Role, o.Device} }

// loginFailed answers where nobody was let in.
func (s *server) loginFailed(w http.ResponseWriter, r *http.Request, err error) {
	later := func() { w.Header().Set("Retry-After", strconv.Itoa(int(password.RetryAfter.Seconds()))) }
	switch {
	case errors.Is(err, access.ErrLogin):
		problem{http.StatusUnauthorized, "login", "The name or the password is wrong."}.write(w)
	case errors.Is(err, access.ErrToken):
		problem{http.StatusUnauthorized, "refresh_token", "This refresh token is not good any more. Log in anew."}.write(w)
	case errors.Is(err, password.ErrTooMany):
		later()
		problem{http.StatusTooManyRequests, "too_many_failures", "Too many wrong passwords have come from your address. Try again in a few seconds, with the right one."}.write(w)
	case errors.Is(err, password.ErrBusy):
		later()
		problem{http.StatusServiceUnavailable, "busy", "The proxy is checking as many passwords as it can. Try again in a few seconds."}.write(w)
	default:
		s.storeFailed(r.Context(), w, err)
	}
}

// describe makes a device's own description fit for a list.
func describe(device string) string {
	device = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(device, ""))
	if runes := []rune(device); len(runes) > 64 {
		device = string(runes[:63]) + "…"
	}
	return cmp.Or(device, "unknown")
}

// logout is POST /api/v1/logout: of the device that asks.
func (s *server) logout(w http.ResponseWriter, r *http.Request) {
	who := callOf(r.Context()).who
	if who.Device == "" {
		problem{http.StatusConflict, "admin_token", "The admin token is no login. To end it, remove admin.token in the state directory and start the proxy anew."}.write(w)
		return
	}
	if err := s.access.RevokeDevice(r.Context(), who.Device); err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	setCookie(w, "", -1)
	w.WriteHeader(http.StatusNoContent)
}

// showMe is GET /api/v1/me.
func (s *server) showMe(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", me(callOf(r.Context()).who))
}

// authenticate finds out who calls. It returns an error only where that can't
// be told, and nobody where the proof is missing or not good.
func (s *server) authenticate(r *http.Request) (who access.Operator, proof bool, err error) {
	ctx, from := r.Context(), callOf(r.Context()).from
	if fields := r.Header["Authorization"]; len(fields) > 0 {
		token, ok := bearer(fields)
		switch {
		case !ok:
		case s.isToken(token):
			who = access.Operator{Name: config.TokenOperator, Role: config.RoleOperator}
		case access.LooksLikeToken(token):
			who, err = s.access.Bearer(ctx, token)
		}
		return who, true, ignore(err, access.ErrToken)
	}
	cookies := r.CookiesNamed(cookieName)
	if len(cookies) != 1 {
		return who, len(cookies) > 0, nil
	}
	who, err = s.access.Browser(ctx, cookies[0].Value, from)
	return who, true, ignore(err, access.ErrToken)
}

func ignore(err, which error) error {
	if errors.Is(err, which) {
		return nil
	}
	return err
}

// byCookie says whether a browser sent its proof by itself. Then it has to say
// whose request it is, too, where that changes something: a browser that does
// not, guards against no page.
func byCookie(r *http.Request) bool { return len(r.Header["Authorization"]) == 0 }

func saysWhose(r *http.Request) bool {
	return len(r.Header["Origin"]) > 0 || len(r.Header["Sec-Fetch-Site"]) > 0
}

// operatorOnly keeps viewers from a route.
func operatorOnly(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if who := callOf(r.Context()).who; who.Role != config.RoleOperator {
			problem{http.StatusForbidden, "role", "A viewer may look only. Ask an operator."}.write(w)
			return
		}
		serve(w, r)
	}
}

// byRole guards all routes that change something, but for those by which
// everybody comes and goes.
func byRole(routes []route) []route {
	for i, rt := range routes {
		switch rt.pattern {
		case "/api/v1/login", "/api/v1/refresh", "/api/v1/logout":
			continue
		}
		if rt.method != http.MethodGet {
			routes[i].serve = operatorOnly(rt.serve)
		}
	}
	return routes
}

// name is who calls, for the log.
func name(ctx context.Context) string {
	if c := callOf(ctx); c != nil {
		return c.who.Name
	}
	return ""
}
