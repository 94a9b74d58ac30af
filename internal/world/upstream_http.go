package world

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
)

// serveHTTP serves one request, and says whether another may follow.
func (u *Upstream) serveHTTP(v *Visit, c net.Conn, br *bufio.Reader) bool {
	r, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	u.note(r.Method + " " + r.RequestURI)
	answer := func(status int) bool {
		resp := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: r}
		if status == http.StatusProxyAuthRequired {
			resp.Header.Set("Proxy-Authenticate", "Basic")
		}
		return resp.Write(c) == nil && r.Method != http.MethodConnect
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(u.o.User+":"+u.o.Password))
	if u.o.User != "" && r.Header.Get("Proxy-Authorization") != want {
		return answer(http.StatusProxyAuthRequired)
	}
	if u.o.Answer != nil {
		if status := u.o.Answer(r.Host); status != 0 {
			return answer(status)
		}
	}
	if r.Method != http.MethodConnect {
		return u.forward(v, c, r, answer)
	}
	if _, port, _ := net.SplitHostPort(r.Host); u.o.ConnectPort != "" && port != u.o.ConnectPort {
		return answer(http.StatusForbidden)
	}
	origin, err := u.reach(v, r.RequestURI)
	if err != nil {
		return answer(http.StatusBadGateway)
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		u.join(c, br, origin)
	}
	return false
}

// forward passes on a request in absolute form.
func (u *Upstream) forward(v *Visit, c net.Conn, r *http.Request, answer func(int) bool) bool {
	if !r.URL.IsAbs() {
		return answer(http.StatusBadRequest)
	}
	r.RequestURI = ""
	b, err := io.ReadAll(r.Body) // now: an answer may come before its end
	if err != nil {
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	r.Header.Del("Proxy-Authorization")
	resp, err := u.http.RoundTrip(r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	if err != nil {
		return answer(http.StatusBadGateway)
	}
	defer resp.Body.Close()
	resp.Close = false
	return resp.Write(c) == nil
}
