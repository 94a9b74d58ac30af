package session

// CanonicalHost returns host in the form in which hosts are compared: the
// A-label in lower case, IPv6 without brackets, a final dot kept. It reports
// false where host is no host. The host carries no port.
func CanonicalHost(host string) (string, bool) { panic("not built") }

// SameSiteHosts says whether two canonical hosts are one site: equal, or equal
// registrable domains ("site" in the HTML standard, without the scheme).
func SameSiteHosts(a, b string) bool { panic("not built") }
