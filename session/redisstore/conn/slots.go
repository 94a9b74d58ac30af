package conn

import (
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// SlotCount is how many slots a Cluster has.
const SlotCount = 16384

// Slot returns the slot of a key: the CRC-16 (XMODEM) of its hash tag, else of
// the whole key, modulo [SlotCount] (Redis Cluster specification).
func Slot(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return int(crc) % SlotCount
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()

// Master is a server that is written to, with the slots it serves: outside a
// Cluster all.
type Master struct {
	Addr  string
	Slots []Range
}

// Range is a run of slots, both ends included.
type Range struct{ First, Last int }

var allSlots = []Range{{0, SlotCount - 1}}

// Serves says whether the master serves a slot.
func (m Master) Serves(slot int) bool {
	for _, r := range m.Slots {
		if r.First <= slot && slot <= r.Last {
			return true
		}
	}
	return false
}

// Key is a key before+N+after in one of the master's slots, where before opens
// a hash tag and after closes it.
func (m Master) Key(before, after string) string {
	for n := 0; ; n++ {
		key := before + strconv.Itoa(n) + after
		if len(m.Slots) == 0 || m.Serves(Slot(key)) {
			return key
		}
	}
}

// Masters reads what a node at an address says of its Cluster. It returns the
// number of slots served, too.
func Masters(slots []redis.ClusterSlot, from string) (masters []Master, served int) {
	at := map[string]int{}
	for _, s := range slots {
		if len(s.Nodes) == 0 {
			continue
		}
		served += s.End - s.Start + 1
		addr := s.Nodes[0].Addr
		if host, port, err := net.SplitHostPort(addr); err == nil && host == "" { // it was not told its own
			host, _, _ = net.SplitHostPort(from)
			addr = net.JoinHostPort(host, port)
		}
		i, ok := at[addr]
		if !ok {
			i = len(masters)
			at[addr] = i
			masters = append(masters, Master{Addr: addr})
		}
		masters[i].Slots = append(masters[i].Slots, Range{s.Start, s.End})
	}
	return masters, served
}
