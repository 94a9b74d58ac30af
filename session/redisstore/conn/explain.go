package conn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// The causes that no library names.
var (
	errWrongMode    = errors.New("the URL says otherwise")
	errTooOld       = errors.New("version is too old")
	errReplica      = errors.New("replicas take no writes")
	errNoPermission = errors.New("the user may not")
	errNotServed    = errors.New("slots are not served")
)

// fault is the sentence about one server.
func (c *Client) fault(addr, what, remedy string, cause error) error {
	where := ""
	if len(c.options.Addrs) > 1 || c.options.Addrs[0] != addr {
		where = " at " + addr
	}
	return &Fault{Store: c.options.String() + where, What: what, Remedy: remedy, Cause: cause}
}

// Fault is what [Client.Check] found wrong.
type Fault struct {
	Store  string // whose, and at which server
	What   string // is wrong
	Remedy string
	Cause  error
}

func (f *Fault) Error() string { return fmt.Sprintf("store %s: %s: %s", f.Store, f.What, f.Remedy) }
func (f *Fault) Unwrap() error { return f.Cause }

// lacks is the fault of a user without rights.
func (c *Client) lacks(missing []string, addr string, cause error) error {
	user := c.options.Username
	if user == "" {
		user = "default"
	}
	line := strings.Join(missing, " ")
	return c.fault(addr, fmt.Sprintf("the user %q lacks permissions: %s", user, line),
		fmt.Sprintf("let an administrator run ACL SETUSER %s %s; docs/redis.md has the whole line", user, line), cause)
}

// explain turns what a connection or a command met into a sentence.
func (c *Client) explain(addr string, err error, sentinel bool) error {
	what, remedy := c.sentence(err, sentinel)
	return c.fault(addr, what, remedy, err)
}

func (c *Client) sentence(err error, sentinel bool) (what, remedy string) {
	if what, remedy := c.tlsSentence(err); what != "" {
		return what, remedy
	}
	password, login := "store.password", "the user and password in the store's URL"
	if sentinel {
		password, login = "store.sentinel_password", "store.sentinel_username and store.sentinel_password: Sentinels have logins of their own"
	}
	text := err.Error()
	starts := func(prefix string) bool { return strings.Contains(": "+text, ": "+prefix) }
	switch {
	case isDial(err):
		return reason(err), dialRemedy(err)
	case starts("NOAUTH"), strings.Contains(text, "no password is set"): // the second is HELLO's
		return "it asks for a password", "set " + password
	case starts("WRONGPASS"):
		return "the user or the password is wrong, or the user is off", "correct " + login
	case starts("DENIED"):
		return "it runs in protected mode and answers its own machine only", "set a password in redis.conf, and then store.password"
	case starts("LOADING"):
		return "it is loading its data", "start again when it is through"
	case redis.IsMaxClientsError(err):
		return "it has no room for another connection", "raise maxclients in redis.conf"
	case redis.IsReadOnlyError(err):
		return "this is a read-only replica", "name its master"
	case redis.IsOOMError(err):
		return "its memory is full", "raise maxmemory in redis.conf"
	case starts("MISCONF"):
		return "it takes no writes, since it could not save to its disk", "see its log"
	case redis.IsNoReplicasError(err):
		return "it takes no writes without its replicas (min-replicas-to-write)", "see whether they run"
	case redis.IsClusterDownError(err):
		return "the Cluster is down", "see what redis-cli --cluster check says"
	case strings.Contains(text, "DB index is out of range"):
		return fmt.Sprintf("it has no database %d", c.options.DB), "correct the number at the end of the URL; 0 is always there"
	case redis.IsPermissionError(err):
		return "the user may not do what the store needs: " + text, "docs/redis.md has the ACL line"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it hangs up at the first word", c.otherwise()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "it takes connections and does not answer", "see whether it is stopped, or overloaded; " + c.otherwise()
	case strings.Contains(text, "can't parse"), strings.Contains(text, "invalid reply"):
		return "what answers there is no Redis", "correct host and port"
	}
	return text, "see its log"
}

// otherwise is what to try where a server says nothing.
func (c *Client) otherwise() string {
	if c.options.TLS {
		return "if it does not speak TLS, write redis in place of rediss"
	}
	return "if it speaks TLS, write rediss in place of redis"
}

// tlsSentence is about the two sides' ideas of TLS. It is "" where they agree.
func (c *Client) tlsSentence(err error) (what, remedy string) {
	var (
		record  tls.RecordHeaderError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		alert   tls.AlertError
	)
	switch {
	case errors.As(err, &record):
		return "it does not speak TLS", "write redis in place of rediss, or give it tls-port"
	case errors.As(err, &unknown):
		if c.options.CA == "" {
			return "its certificate is signed by an authority that this machine does not know", "name that authority's certificate in store.ca"
		}
		return "its certificate is not signed by the authority in " + c.options.CA, "name the right authority's certificate in store.ca"
	case errors.As(err, &host):
		return "its certificate is for another name: " + host.Error(), "write one of its names in the store's URL, or give it a certificate for this one"
	case errors.As(err, &invalid):
		return "its certificate is not valid: " + invalid.Error(), "give it another"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls: "):
		if c.options.Cert == "" {
			return "it refuses the TLS connection: " + text(err), "if it asks clients for a certificate, name one in store.cert and store.key, or set tls-auth-clients no in redis.conf"
		}
		return "it refuses the TLS connection: " + text(err), "show it another certificate in store.cert and store.key: its log says what it misses"
	}
	return "", ""
}

// text is an error's, without what the libraries on the way put before it.
func text(err error) string {
	_, after, found := strings.Cut(err.Error(), "remote error: ")
	if found {
		return after
	}
	return err.Error()
}

// isDial says whether no connection came about.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// reason says why no connection came about.
func reason(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %s is not known (%s)", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such socket"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not use the socket"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", DialTimeout)
	}
	return err.Error()
}

func dialRemedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "see unixsocketperm in redis.conf, or add the user to its group"
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return "start Redis there, or correct the address"
	}
	return "correct the address, or see what is between here and there"
}
