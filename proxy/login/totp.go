package login

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // what RFC 6238 has, and what sites use
	"encoding/binary"
	"fmt"
	"time"
)

// totp is the one-time code of RFC 6238 at that time: six digits, each for 30 s.
func totp(secret []byte, now time.Time) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(now.Unix()/30))
	mac := hmac.New(sha1.New, secret)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf // RFC 4226 section 5.3
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1_000_000)
}
