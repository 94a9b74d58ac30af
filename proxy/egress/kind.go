package egress

import "net/netip"

// Kind is what an address is to a network: see the IANA special-purpose address
// registries (RFC 6890).
type Kind string

// The kinds of address. Those but the first are special: who asks for one
// through a proxy mostly wants what only the proxy's machine can reach.
const (
	Public    Kind = "public"
	Loopback  Kind = "loopback"
	Private   Kind = "private"    // and what carriers, benchmarks and VPNs use as such
	LinkLocal Kind = "link_local" // answers without a router, to whoever is on the same wire
	Metadata  Kind = "metadata"   // a cloud's: it gives the machine's own credentials away
	Reserved  Kind = "reserved"   // nobody's, or many's: documentation, multicast, the future
)

// words name a kind in a sentence.
var words = map[Kind]string{
	Loopback:  "the proxy's own machine",
	Private:   "a private network",
	LinkLocal: "a link-local address",
	Metadata:  "where clouds keep a machine's credentials",
	Reserved:  "a reserved address",
}

// special lists the ranges that are not public, the narrow ones first. What it
// leaves out of IPv6 is public only within 2000::/3.
var special = []struct {
	kind     Kind
	prefixes []netip.Prefix
}{
	{Metadata, prefixes(
		"169.254.169.254/32", // AWS, Azure, Google, OpenStack and most others
		"169.254.170.2/32",   // AWS, of containers
		"169.254.170.23/32",  // AWS, of pods
		"100.100.100.200/32", // Alibaba
		"168.63.129.16/32",   // Azure's wire server, in a range that is public
		"192.0.0.192/32",     // Oracle
		"fd00:ec2::254/128",  // AWS
		"fd00:ec2::23/128",   // AWS, of pods
		"fd20:ce::254/128",   // Google
		"fe80::a9fe:a9fe/128",
	)},
	{Loopback, prefixes(
		"127.0.0.0/8", "::1/128",
		"0.0.0.0/8", "::/128", // the kernel takes the unspecified address for this machine
	)},
	{LinkLocal, prefixes("169.254.0.0/16", "fe80::/10")},
	{Private, prefixes(
		"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", // RFC 1918
		"100.64.0.0/10",  // RFC 6598, carriers; VPNs use it too
		"198.18.0.0/15",  // RFC 2544, benchmarks; VPNs use it too
		"fc00::/7",       // RFC 4193
		"fec0::/10",      // RFC 3879, once "site-local"
		"64:ff9b:1::/48", // RFC 8215, NAT64 of one's own: it may lead to any IPv4 address
	)},
	{Reserved, prefixes(
		"192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "192.88.99.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"2001:2::/48", "2001:db8::/32", "3fff::/20",
	)},
}

var (
	global = netip.MustParsePrefix("2000::/3") // all of IPv6 that is given out, RFC 4291 section 2.4

	// Where an IPv6 address carries an IPv4 one that a router may deliver to.
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 section 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765 section 2.1
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
)

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, p := range all {
		parsed[i] = netip.MustParsePrefix(p)
	}
	return parsed
}

// KindOf says what an address is. An IPv6 address that carries an IPv4 one is
// what that is.
func KindOf(a netip.Addr) Kind {
	a = a.Unmap().WithZone("")
	for _, s := range special {
		if within(s.prefixes, a) {
			return s.kind
		}
	}
	if a.Is4() {
		return Public
	}
	if inner, ok := embedded(a); ok {
		return KindOf(inner)
	}
	if !global.Contains(a) {
		return Reserved
	}
	return Public
}

// embedded returns the IPv4 address that a carries, if any.
func embedded(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case compatible.Contains(a), translated.Contains(a), nat64.Contains(a),
		b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(a):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

func within(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
