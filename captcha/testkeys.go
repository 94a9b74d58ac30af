package captcha

import "fmt"

// Published sitekeys for tests. Cloudflare documents the token of its own;
// Google's secret for tests takes any.
const (
	googleTestKey = "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI"
	googleToken   = "test-key-token"
	dummyToken    = "XXXX.DUMMY.TOKEN.XXXX"
)

// testKeys are Cloudflare's: whether their widget ever gives a token.
var testKeys = map[string]bool{
	"1x00000000000000000000AA": true,
	"2x00000000000000000000AB": false,
	"1x00000000000000000000BB": true,
	"2x00000000000000000000BB": false,
	"3x00000000000000000000FF": true,
}

// testToken answers for a sitekey that is published for tests: nobody is to be
// paid for it.
func testToken(sitekey string) (token string, known bool, err error) {
	if sitekey == googleTestKey {
		return googleToken, true, nil
	}
	passes, known := testKeys[sitekey]
	if known && !passes {
		return "", true, &Failure{outcome: "test_key", text: fmt.Sprintf("sitekey %s is Cloudflare's for tests, whose widget always refuses", sitekey)}
	}
	return dummyToken, known, nil
}
