//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// The peers: what a user would run otherwise, from Debian's packages.
const (
	mitmproxy = "mitmproxy" // with stickycookie, its way to share a session
	squid     = "squid"     // ssl_bump; it attaches nothing
	nginx     = "nginx"     // a TLS-to-TLS reverse proxy with a fixed Cookie: the bound, since it intercepts nothing
)

var peerNames = []string{mitmproxy, squid, nginx}

// peerRows are what make bench-peers measures.
var peerRows = []row{
	{
		name: "keep-alive", note: "HTTP/1.1, 1 KiB, connections kept",
		path: "/1k", proxies: []string{sessionproxy, embedded, tuned, stock, mitmproxy, squid, nginx}, yardstick: tuned, goal: 0.7,
	},
	{
		name: "new-connection", note: "CONNECT, full TLS handshake, one request of 1 KiB",
		fresh: true,
		path:  "/1k", proxies: []string{sessionproxy, embedded, tuned, stock, mitmproxy, squid, nginx}, yardstick: tuned, goal: 0.85,
	},
	{
		name: "h2", note: "HTTP/2 to the client, 1 KiB, connections kept",
		h2:   true,
		path: "/1k", proxies: []string{sessionproxy, tunedH2, mitmproxy, nginx}, yardstick: tunedH2, goal: 0.8,
	},
	{
		name: "1MiB", note: "HTTP/1.1, bodies of 1 MiB, connections kept",
		path: "/1m", proxies: []string{sessionproxy, embedded, tuned, stock, mitmproxy, squid, nginx}, yardstick: tuned,
	},
	{
		name: "1GiB", note: "HTTP/1.1, one body of 1 GiB at a time; CPU is for the whole body. mitmproxy needs minutes for one", alone: true,
		path: "/1g", proxies: []string{sessionproxy, embedded, tuned, squid, nginx}, yardstick: tuned, goal: 1,
	},
	{
		name: "set-cookie", note: "keep-alive, with a new cookie in each response, which sessionproxy writes to Redis before the client sees it", any: true,
		path: "/set", proxies: []string{sessionproxy, tuned, mitmproxy, squid, nginx}, yardstick: tuned,
	},
	{
		name: "1000-hosts", note: "a new proxy, one new connection to each of 1,000 hosts: leaves are signed", fresh: true, hosts: 1000,
		path: "/1k", proxies: []string{sessionproxy, tuned, mitmproxy, squid}, yardstick: tuned,
	},
	{
		name: "websocket", note: "messages of 64 bytes, each echoed", socket: true,
		path: "/socket", proxies: []string{sessionproxy, embedded, tuned, mitmproxy, squid, nginx}, yardstick: tuned,
	},
	latency,
	{
		name: "idle-h1", note: "one request on each of 10,000 connections, which then stay open", idle: true,
		path: "/1k", proxies: []string{sessionproxy, tuned, mitmproxy, squid, nginx}, yardstick: tuned,
	},
}

// peer returns the command that runs a peer, its files in dir.
func (b *bed) peer(name, dir, addr string) (*exec.Cmd, error) {
	switch name {
	case mitmproxy:
		return b.mitmproxy(dir, addr)
	case squid:
		return b.squid(dir, addr)
	}
	return b.nginx(dir, addr)
}

func (b *bed) mitmproxy(dir, addr string) (*exec.Cmd, error) {
	key, err := os.ReadFile(b.file("ca.key"))
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(b.file("ca.pem"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "mitmproxy-ca.pem"), append(key, cert...), 0o600); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("mitmdump", "--listen-host", host, "--listen-port", port)
	for _, set := range []string{
		"confdir=" + dir, "ssl_verify_upstream_trusted_ca=" + b.file("origin.pem"), "connection_strategy=lazy", "upstream_cert=false",
		"stickycookie=~all", "stream_large_bodies=1m", "flow_detail=0",
	} {
		cmd.Args = append(cmd.Args, "--set", set)
	}
	return cmd, nil
}

func (b *bed) squid(dir, addr string) (*exec.Cmd, error) {
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1 %s\n", originHost)
	for n := range 1001 {
		fmt.Fprintf(&hosts, "127.0.0.1 %s\n", manyHost(n))
	}
	const helper = "/usr/lib/squid/security_file_certgen"
	db := filepath.Join(dir, "certs")
	if out, err := exec.Command(helper, "-c", "-s", db, "-M", "16MB").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make squid's store of certificates (Debian package squid-openssl): %w\n%s", err, out)
	}
	conf := fmt.Sprintf(`http_port %s ssl-bump cert=%s key=%s generate-host-certificates=on dynamic_cert_mem_cache_size=16MB
sslcrtd_program %s -s %s -M 16MB
sslcrtd_children 4 startup=4
hosts_file %s
tls_outgoing_options cafile=%s
acl hello at_step SslBump1
ssl_bump peek hello
ssl_bump bump all
http_access allow all
cache deny all
access_log stdio:%s
cache_log %s
pid_filename none
coredump_dir %s
shutdown_lifetime 0 seconds
http_upgrade_request_protocols websocket allow all
`, addr, filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca.key"), helper, db, filepath.Join(dir, "hosts"), filepath.Join(dir, "origin.pem"),
		filepath.Join(dir, "access.log"), filepath.Join(dir, "cache.log"), dir)
	files := map[string]string{"hosts": hosts.String(), "squid.conf": conf}
	for _, name := range []string{"ca.pem", "ca.key", "origin.pem"} { // its own: sessionproxy takes no key that others may read
		content, err := os.ReadFile(b.file(name))
		if err != nil {
			return nil, err
		}
		files[name] = string(content)
	}
	if err := writeFiles(dir, files); err != nil {
		return nil, err
	}
	return exec.Command("squid", "-N", "-d", "1", "-n", "bench"+filepath.Base(dir)[len(squid)+1:], "-f", filepath.Join(dir, "squid.conf")), b.giveToSquid(dir)
}

// giveToSquid gives a folder to the user that Squid becomes where it is started by root.
func (b *bed) giveToSquid(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	who, err := user.Lookup("proxy")
	if err != nil {
		return err
	}
	uid, _ := strconv.Atoi(who.Uid) // a number, on Linux
	gid, _ := strconv.Atoi(who.Gid)
	if err := os.Chmod(b.dir, 0o711); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	})
}

func (b *bed) nginx(dir, addr string) (*exec.Cmd, error) {
	var cookie []string
	for i := range sessionCookies {
		cookie = append(cookie, fmt.Sprintf("session_%d=%s", i, strings.Repeat(fmt.Sprint(i), 32)))
	}
	conf := fmt.Sprintf(`daemon off;
worker_processes 1;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 20000; }
http {
	access_log %[1]s/access.log combined buffer=64k flush=100ms;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	keepalive_requests 1000000000;
	keepalive_timeout 300s;
	upstream origin { server %[3]s; keepalive 256; keepalive_requests 1000000000; }
	map $http_upgrade $hop { default upgrade; "" ""; }
	server {
		listen %[2]s ssl http2;
		ssl_certificate %[4]s;
		ssl_certificate_key %[5]s;
		location / {
			proxy_pass https://origin;
			proxy_http_version 1.1;
			proxy_set_header Host %[6]s;
			proxy_set_header Connection $hop;
			proxy_set_header Upgrade $http_upgrade;
			proxy_set_header Cookie "%[7]s";
			proxy_ssl_verify on;
			proxy_ssl_name %[6]s;
			proxy_ssl_server_name on;
			proxy_ssl_trusted_certificate %[8]s;
			proxy_max_temp_file_size 0;
		}
	}
}
`, dir, addr, b.origin.Addr(), b.file("site.pem"), b.file("site.key"), originHost, strings.Join(cookie, "; "), b.file("origin.pem"))
	if os.Geteuid() == 0 {
		conf = "user root;\n" + conf
	}
	return exec.Command("nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf")), writeFiles(dir, map[string]string{"nginx.conf": conf})
}

func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
